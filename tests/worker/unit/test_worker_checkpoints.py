"""What a handler keeps for the next attempt, and how it leaves a worker that ends, against a small farm in memory."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from jobfarm_worker import Job, JobStopped, Worker
from tests.worker.unit.outside import KEY, FarmServer, StoredJob, until, working


async def ended(job: StoredJob) -> None:
    """Wait for its end."""
    await until(lambda: job.finishes)


class TestACheckpoint:
    async def test_of_an_earlier_attempt_is_there_at_the_start(self, farm: FarmServer, worker: Worker) -> None:
        worker.handler("async")(self._give_async)
        worker.handler("plain")(lambda job: job.last_checkpoint)
        async with working(worker):
            jobs = [farm.submit(kind, checkpoint=kept) for kind in ("async", "plain") for kept in (None, {"n": [3]})]
            for job in jobs:
                await ended(job)
        assert [job.result for job in jobs] == [None, {"n": [3]}] * 2

    @staticmethod
    async def _give_async(job: Job) -> Any:
        return job.last_checkpoint

    async def test_arrives_before_the_job_is_handed_in_the_last_of_many(self, farm: FarmServer, worker: Worker) -> None:
        @worker.handler("plain")
        def plain(job: Job) -> Any:
            state = {"n": 0}
            for n in range(500):
                state["n"] = n
                job.checkpoint(state)
            state["n"] = -1  # what was kept is as it was then
            return job.last_checkpoint

        @worker.handler("async")
        async def later(job: Job) -> Any:
            return plain(job)

        async with working(worker):
            jobs = [farm.submit(kind) for kind in ("plain", "async")]
            for job in jobs:
                await ended(job)
        assert [(job.checkpoint, job.result) for job in jobs] == [({"n": 499}, {"n": 499})] * 2
        assert farm.calls["checkpoint"] <= 6

    async def test_is_sent_five_times_a_second_at_most(self, farm: FarmServer, worker: Worker) -> None:
        @worker.handler("plain")
        def plain(job: Job) -> None:
            end = time.monotonic() + 1
            while time.monotonic() < end:
                job.checkpoint(time.monotonic())
                job.pause(0.005)

        async with working(worker):
            await ended(farm.submit("plain"))
        assert 2 <= farm.calls["checkpoint"] <= 7

    @pytest.mark.parametrize(
        ("value", "sentence"),
        [
            ("x" * 64_000, "A checkpoint has at most 64,000 bytes, not 64,002: keep what is long in a file."),
            ({1, 2}, "A checkpoint has to be JSON: Object of type set is not JSON serializable"),
            (float("nan"), "A checkpoint has to be JSON: Out of range float values are not JSON compliant"),
            ("\ud800", "A checkpoint has to be JSON: 'utf-8' codec can't encode character"),
        ],
    )
    async def test_that_is_none_is_refused_at_once(
        self, farm: FarmServer, worker: Worker, value: Any, sentence: str
    ) -> None:
        @worker.handler("plain")
        def plain(job: Job) -> str:
            job.checkpoint("good")
            with pytest.raises(ValueError) as refused:  # noqa: PT011 (what it says is compared)
                job.checkpoint(value)
            return str(refused.value)

        async with working(worker):
            job = farm.submit("plain")
            await ended(job)
        assert (job.checkpoint, job.status) == ("good", "success")
        assert job.result.startswith(sentence)

    async def test_has_arrived_when_it_was_flushed(self, farm: FarmServer, worker: Worker) -> None:
        @worker.handler("async")
        async def flush(job: Job) -> list[Any]:
            seen = []
            for n in range(3):
                job.checkpoint(n)
                await job.flush()
                seen.append(farm.jobs[job.id].checkpoint)
            return seen

        async with working(worker):
            job = farm.submit("async")
            await ended(job)
        assert job.result == [0, 1, 2]

    async def test_whose_answer_is_lost_is_sent_again(self, farm: FarmServer, worker: Worker) -> None:
        worker.handler("plain")(lambda job: job.checkpoint("half"))
        farm.lose_answers["checkpoint"] = 1
        async with working(worker):
            job = farm.submit("plain")
            await ended(job)
        assert (job.checkpoint, farm.calls["checkpoint"], job.status) == ("half", 2, "success")

    async def test_of_a_lost_lease_stops_the_handler(self, farm: FarmServer, worker: Worker) -> None:
        stopped = threading.Event()

        @worker.handler("plain")
        def plain(job: Job) -> None:
            farm.take_away(farm.jobs[job.id])
            job.checkpoint("late")
            try:
                job.pause(20)
            except JobStopped:
                stopped.set()
                raise

        async with working(worker):
            job = farm.submit("plain")
            await until(stopped.is_set)
        assert (job.checkpoint, job.finishes) == (None, 0)


class TestAWorkerThatEnds:
    @pytest.mark.parametrize("plain", [True, False])
    async def test_gives_back_a_job_with_its_last_checkpoint(
        self, farm: FarmServer, transport: Any, plain: bool
    ) -> None:
        worker = Worker(farm.url, KEY, transport=transport, grace_s=0.1)
        last: list[int] = []

        def count(job: Job) -> None:
            while True:
                job.checkpoint((last[-1] if last else 0) + 1)
                last.append(job.last_checkpoint)
                job.pause(0.001)

        async def count_async(job: Job) -> None:
            while True:
                job.checkpoint((last[-1] if last else 0) + 1)
                last.append(job.last_checkpoint)
                await asyncio.sleep(0.001)

        worker.handler("count")(count if plain else count_async)
        running = asyncio.create_task(worker.run())
        job = farm.submit("count")
        await until(lambda: job.checkpoint)
        farm.hold.add("checkpoint")  # one is under way, and newer ones wait
        await until(lambda: farm.calls["checkpoint"] > 1)
        worker.stop()
        await asyncio.sleep(0.3)
        assert farm.calls["release"] == 0
        farm.hold.clear()
        await asyncio.wait_for(running, 10)

        assert (job.status, job.checkpoint, farm.refused_leases) == ("pending", last[-1], [])

    @pytest.mark.parametrize("plain", [True, False])
    async def test_asks_handlers_which_may_keep_what_they_have_and_give_it_back(
        self, farm: FarmServer, transport: Any, plain: bool
    ) -> None:
        worker = Worker(farm.url, KEY, transport=transport, grace_s=60)
        seen: list[bool] = []

        def patient(job: Job) -> None:
            while not job.stopping:
                job.pause(0.01)
            leave(job)

        async def patient_async(job: Job) -> None:
            seen.append(job.stopping)
            await job.until_stopping()
            leave(job)

        def leave(job: Job) -> None:
            seen.append(job.stopping)
            job.write("The last words")
            job.checkpoint({"n": 7})
            job.release()

        worker.handler("wait")(patient if plain else patient_async)
        running = asyncio.create_task(worker.run())
        job = farm.submit("wait")
        await until(lambda: worker.board.jobs)
        worker.stop()
        await asyncio.wait_for(running, 5)

        assert (job.status, job.checkpoint, job.text, job.finishes) == ("pending", {"n": 7}, "The last words", 0)
        assert (seen[-1], farm.calls["release"], farm.refused_leases) == (True, 1, [])

    async def test_gives_a_job_back_whose_handler_hides_that_it_was_released(
        self, farm: FarmServer, worker: Worker
    ) -> None:
        @worker.handler("once")
        def once(job: Job) -> str:
            if job.last_checkpoint is None:
                job.checkpoint("half")
                try:
                    job.release()
                except Exception:
                    return "hidden"
            return "whole"

        async with working(worker):
            job = farm.submit("once")
            await ended(job)
        assert (job.result, job.checkpoint, farm.calls["release"]) == ("whole", "half", 1)
