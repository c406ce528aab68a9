"""Farms, networks and handlers that do what none should, against a small farm in memory."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from typing import Any

import pytest

from jobfarm_worker import Job, Worker, farm as farm_module, protocol
from tests.worker.unit.outside import KEY, Door, FarmServer, SayNo, until, working

TOO_LARGE = 10**400


class TestNumberThatIsTooLarge:
    async def test_is_waited_out_wherever_it_comes(self, farm: FarmServer, worker: Worker) -> None:
        """One ended the worker."""
        leased = farm._leased
        strange: list[dict[str, Any]] = [{"attempt": 1e999}, {"heartbeat_every": TOO_LARGE}, {"fence": -1e999}]
        farm._leased = lambda job: {**leased(job), **(strange.pop() if strange else {})}  # type: ignore[method-assign]
        for verb in ("hello", "finish"):
            farm.refusals[verb] = [SayNo(429, "rate_limited", retry_after=TOO_LARGE)]
        worker.handler("greet")(lambda _job: "hello")

        async with working(worker):
            job = farm.submit("greet")
            await until(lambda: job.finishes, timeout_s=20)

        assert (strange, farm.refusals["finish"], job.result) == ([], [], "hello")


class TestSocket:
    async def test_by_which_nothing_comes_is_no_way_to_the_farm(
        self, farm: FarmServer, door: Door, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It was opened again and again, and every call went by it."""
        monkeypatch.setattr(protocol, "SHORTEST_ANSWER_S", 0.2)
        monkeypatch.setattr(protocol, "LONGEST_ANSWER_S", 0.2)
        opened = 0

        async def swallowing(scope: Any, receive: Any, send: Any) -> None:
            nonlocal opened
            if scope["type"] == "http":
                await farm(scope, receive, send)
                return
            opened += 1
            await send({"type": "websocket.accept"})
            while (await receive())["type"] != "websocket.disconnect":
                pass

        door.app = swallowing
        worker = Worker(farm.url, KEY)
        worker.handler("greet")(lambda _job: "hello")
        async with working(worker):
            for _ in range(3):
                job = farm.submit("greet")
                await until(lambda job=job: job.finishes)  # type: ignore[misc]
        assert opened == 1

    async def test_that_lets_nothing_through_when_it_is_tried_again_keeps_no_idle_worker_from_work(
        self, farm: FarmServer, door: Door, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A claim waited by it for as long as one may, and then for its answer."""
        monkeypatch.setattr(protocol, "SHORTEST_ANSWER_S", 0.2)
        monkeypatch.setattr(protocol, "LONGEST_ANSWER_S", 0.2)
        monkeypatch.setattr(farm_module, "SOCKET_AGAIN_S", 0.1)
        monkeypatch.setattr(farm_module, "WAIT_S", 1)
        claims: list[dict[str, Any]] = []

        async def swallowing(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                await farm(scope, receive, send)
                return
            await send({"type": "websocket.accept"})
            while (message := await receive())["type"] != "websocket.disconnect":
                claims.extend([call for call in [json.loads(message.get("text", "{}"))] if call.get("type") == "claim"])

        door.app = swallowing
        worker = Worker(farm.url, KEY)
        worker.handler("greet")(lambda _job: "hello")
        async with working(worker):
            await until(lambda: len(claims) > 2)
        assert {call["wait"] for call in claims[1:]} == {0}


class TestSignal:
    async def test_that_another_thread_receives_is_heard_at_once(self, farm: FarmServer) -> None:
        """It was heard when the loop had something else to do; Linux may give it to any thread, and macOS does."""
        worker = Worker(farm.url, KEY, transport="http")
        stored = farm.submit("send")

        @worker.handler("send")
        def send(job: Job) -> bool:
            run = worker._session
            assert run is not None
            [lease] = run.heartbeats._leases
            while run._intake._timer or not lease.is_confirmed:  # nothing else wakes the loop from then on
                job.pause(0.01)
            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
            until_s = time.monotonic() + 5
            while not job.stopping and time.monotonic() < until_s:
                job.pause(0.01)
            return job.stopping

        before = signal.getsignal(signal.SIGTERM)
        await asyncio.wait_for(worker._run_until_signal(), 20)
        assert (stored.result, signal.getsignal(signal.SIGTERM)) == (True, before)


class TestHandler:
    async def test_that_is_canceled_with_all_of_its_loop_is_given_back(self, farm: FarmServer) -> None:
        """As asyncio.run() does when its program ends. Its attempt had failed."""
        worker = Worker(farm.url, KEY, transport="http")

        @worker.handler("last")
        async def last(job: Job) -> None:
            job.write("On and on.")
            await asyncio.sleep(60)

        job = farm.submit("last")

        async def program() -> None:
            running = asyncio.create_task(worker.run())
            await until(lambda: job.pieces)
            assert not running.done()

        await asyncio.to_thread(asyncio.run, program())
        assert (job.status, job.finishes, farm.calls["release"]) == ("pending", 0, 1)

    async def test_whose_result_changes_until_it_is_handed_in_has_failed(
        self, farm: FarmServer, worker: Worker
    ) -> None:
        """What was no JSON by then ended the worker."""
        shared: dict[str, Any] = {}
        farm.hold.add("output")

        @worker.handler("share")
        def share(job: Job) -> dict[str, Any]:
            job.write("Here it comes.")
            return shared

        async with working(worker):
            job = farm.submit("share")
            await until(lambda: farm.calls["output"] and not worker.board.jobs)
            shared["more"] = {1}
            farm.hold.clear()
            await until(lambda: job.finishes)

        assert job.status == "failed"
        assert job.error == "The farm refused the result: It is not JSON: Object of type set is not JSON serializable"

    async def test_that_cancels_itself_fails_its_attempt(self, farm: FarmServer, worker: Worker) -> None:
        """Nobody reported how it ended until its lease ran out."""

        @worker.handler("give up")
        async def give_up(_: Job) -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(10)

        async with working(worker):
            job = farm.submit("give up")
            await until(lambda: job.finishes)

        assert (job.status, "CancelledError" in job.error) == ("failed", True)

    async def test_heartbeats_go_on_while_all_jobs_upload_by_slow_connections(self, farm: FarmServer) -> None:
        """A hundred connections were all, and files had them: leases were lost."""
        farm.hold.add("file")
        farm.heartbeat_every = 1.0
        worker = Worker(farm.url, KEY, transport="http", concurrency=110)
        worker.handler("upload")(lambda job: job.file("a.txt", b"a"))

        async with working(worker):
            jobs = [farm.submit("upload") for _ in range(110)]
            await until(lambda: farm.calls["file"] == len(jobs))
            await until(lambda: all(job.beats for job in jobs))
            farm.hold.clear()
            await until(lambda: all(job.finishes for job in jobs))
