"""How a worker comes by its jobs, and when it gives up. Against a small farm in memory."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from jobfarm_worker import BadOption, Job, Refused, Unauthorized, Worker, WrongServer
from tests.worker.unit.outside import KEY, FarmServer, SayNo, serving, until, working


class TestClaim:
    async def test_takes_the_next_job_with_the_answer_to_the_last(
        self, farm: FarmServer, socket_worker: Worker
    ) -> None:
        jobs = [farm.submit("quick", number) for number in range(20)]
        socket_worker.handler("quick")(lambda job: job.payload)

        async with working(socket_worker):
            await until(lambda: all(job.finishes for job in jobs))

        assert [job.result for job in jobs] == list(range(20))
        assert farm.calls["claim"] <= 3

    async def test_runs_as_many_as_it_may_and_no_more(self, farm: FarmServer) -> None:
        worker = Worker(farm.url, KEY, concurrency=3)
        most = 0

        @worker.handler("wait")
        async def wait(_job: Job) -> None:
            nonlocal most
            most = max(most, len(worker.board.jobs))
            await asyncio.sleep(0.03)

        jobs = [farm.submit("wait") for _ in range(12)]
        async with working(worker):
            await until(lambda: all(job.finishes for job in jobs))

        assert most == 3

    async def test_looks_for_more_when_a_finish_brought_work_while_other_slots_wait(self, farm: FarmServer) -> None:
        """What comes with the answer to a finish leaves the claim alone that waits meanwhile for the other slot."""
        worker = Worker(farm.url, KEY, transport="ws", concurrency=2)
        gates = {"first": asyncio.Event(), "others": asyncio.Event()}

        @worker.handler("wait")
        async def wait(job: Job) -> None:
            await gates[job.payload].wait()

        async with working(worker):
            first = farm.submit("wait", "first")
            await until(lambda: farm.calls["claim"] and farm.bodies["claim"][-1]["limit"] == 1)
            others = [farm.submit("wait", "others") for _ in range(2)]
            gates["first"].set()
            await until(lambda: all(job.attempt for job in others))
            gates["others"].set()
            await until(lambda: all(job.finishes for job in (first, *others)))

    async def test_keeps_to_its_queues_also_after_a_finish(self, farm: FarmServer) -> None:
        worker = Worker(farm.url, KEY, queues=["mine"])
        worker.handler("quick")(lambda _job: None)
        others = farm.submit("quick", queue="others")
        mine = [farm.submit("quick", queue="mine") for _ in range(3)]

        async with working(worker):
            await until(lambda: all(job.finishes for job in mine))

        assert others.status == "pending"
        assert all("claim_next" not in body for body in farm.bodies["finish"])

    async def test_waits_quietly_while_there_is_nothing(self, farm: FarmServer, worker: Worker) -> None:
        worker.handler("quick")(lambda _job: None)

        async with working(worker):
            await until(lambda: farm.calls["claim"])
            await asyncio.sleep(0.3)
            claims_before = farm.calls["claim"]
            job = farm.submit("quick")
            await until(lambda: job.finishes)
            await asyncio.sleep(0.3)

        assert (claims_before, farm.calls["claim"]) == (1, 2)

    async def test_does_not_spin_when_the_farm_cries_wolf(self, farm: FarmServer, worker: Worker) -> None:
        """A farm that never lets a claim wait, or announces work that others always get, costs little."""
        farm.never_waits = True
        worker.handler("quick")(lambda _job: None)
        started_s = time.monotonic()

        async with working(worker):
            while time.monotonic() - started_s < 0.5:
                farm.announce()
                await asyncio.sleep(0.005)

        assert farm.calls["claim"] < 40

    async def test_stops_with_a_sentence_when_the_key_is_wrong(self, farm: FarmServer, worker: Worker) -> None:
        farm.key_is_good = False
        worker.handler("quick")(lambda _job: None)

        with pytest.raises((Unauthorized, WrongServer), match="key"):
            await asyncio.wait_for(worker.run(), 10)

    async def test_stops_when_the_key_is_revoked_while_it_works(self, farm: FarmServer, worker: Worker) -> None:
        farm.heartbeat_every = 0.1
        stopped: list[bool] = []

        @worker.handler("wait")
        async def wait(job: Job) -> None:
            try:
                await asyncio.sleep(60)
            finally:
                stopped.append(job.stopped)

        running = asyncio.create_task(worker.run())
        job = farm.submit("wait")
        await until(lambda: job.beats)
        farm.key_is_good = False
        farm.cut_sockets(4401)
        with pytest.raises(Unauthorized):
            await asyncio.wait_for(running, 10)
        assert stopped == [True]

    async def test_stops_with_a_sentence_when_the_farm_will_not_have_it(self, farm: FarmServer, worker: Worker) -> None:
        farm.refusals["claim"].append(SayNo(422, "invalid"))
        worker.handler("quick")(lambda _job: None)

        with pytest.raises(Refused, match="invalid"):
            await asyncio.wait_for(worker.run(), 10)

    async def test_gives_back_what_it_runs_when_the_farm_will_not_have_it(self, farm: FarmServer) -> None:
        farm.never_waits = True
        worker = Worker(farm.url, KEY, concurrency=2)
        worker.handler("wait")(lambda job: job.pause(60))

        running = asyncio.create_task(worker.run())
        job = farm.submit("wait")
        await until(lambda: job.beats)
        farm.refusals["claim"].append(SayNo(403, "queue_not_allowed"))
        with pytest.raises(Refused, match="queue_not_allowed"):
            await asyncio.wait_for(running, 10)

        assert (job.status, farm.calls["release"]) == ("pending", 1)

    @pytest.mark.parametrize("transport", ["auto", "http", "ws"])
    async def test_stops_with_a_sentence_when_no_farm_is_at_the_address(self, transport: Any) -> None:
        async def other_site(scope: Any, _receive: Any, send: Any) -> None:
            kind = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
            headers = [(b"content-type", b"text/html")]
            await send({"type": f"{kind}.start", "status": 404, "headers": headers})
            await send({"type": f"{kind}.body", "body": b"<h1>Not here</h1>"})

        with serving(other_site) as (url, _):
            worker = Worker(url, KEY, transport=transport)
            worker.handler("quick")(lambda _job: None)
            with pytest.raises(WrongServer):
                await asyncio.wait_for(worker.run(), 10)

    async def test_without_any_handler_is_a_mistake(self, worker: Worker) -> None:
        with pytest.raises(BadOption, match="at least one handler"):
            await worker.run()
