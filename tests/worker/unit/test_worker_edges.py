"""Farms, networks and handlers that do what none should, against a small farm in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jobfarm_worker import Job, Worker, protocol
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


class TestHandler:
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
        """Nobody said how it ended until its lease ran out."""

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
