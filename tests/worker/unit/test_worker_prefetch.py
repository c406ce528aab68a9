"""A worker whose jobs are short: it keeps some ready, hands them in together, and gives back what it has not begun."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from jobfarm_worker import Job, Worker, claims, session
from tests.worker.unit.outside import KEY, FarmServer, SayNo, StoredJob, until, working


def submitted(farm: FarmServer, count: int, **fields: Any) -> list[StoredJob]:
    return [farm.submit("work", number, **fields) for number in range(count)]


def echo(worker: Worker) -> list[int]:
    """A handler that returns the payload; the payloads in the order in which they ran."""
    runs: list[int] = []

    @worker.handler("work")
    async def work(job: Job) -> int:
        runs.append(job.payload)
        return int(job.payload)

    return runs


class Gate:
    """A handler whose job of payload "long" waits at the gate; the others are short."""

    def __init__(self, worker: Worker) -> None:
        self.open = asyncio.Event()
        self.reached = asyncio.Event()
        self.runs: list[int] = []
        worker.handler("work")(self.work)

    async def work(self, job: Job) -> None:
        self.runs.append(job.id)
        if job.payload == "long":
            self.reached.set()
            await self.open.wait()


def with_a_long_one(farm: FarmServer, **fields: Any) -> tuple[list[StoredJob], StoredJob, list[StoredJob]]:
    """Short jobs, then a long one, then short ones that lie ready while it runs."""
    before = submitted(farm, 30, **fields)
    long = farm.submit("work", "long", **fields)
    return before, long, submitted(farm, 20, **fields)


def _leases(body: dict[str, Any]) -> set[str]:
    """The ids of the jobs whose ends this call hands in."""
    return {entry["lease"].partition("-")[2] for entry in body.get("finished", [body])}


async def at_the_gate(farm: FarmServer, worker: Worker) -> tuple[asyncio.Task[None], Gate, StoredJob, list[StoredJob]]:
    """A run whose long job waits while others lie ready: its task, the gate, that job, and those."""
    farm.heartbeat_every = 1000.0
    _, long, after = with_a_long_one(farm)
    gate = Gate(worker)
    running = asyncio.create_task(worker.run())
    await gate.reached.wait()
    await until(lambda: after[0].status == "in_progress")
    return running, gate, long, after


class TestShortJobs:
    async def test_are_handed_in_together_in_their_order(self, farm: FarmServer, worker: Worker) -> None:
        jobs = submitted(farm, 200)
        runs = echo(worker)

        async with working(worker):
            await until(lambda: all(job.finishes for job in jobs))

        assert runs == list(range(200))
        assert {(job.fence, job.finishes, job.status, job.result == job.payload) for job in jobs} == {
            (1, 1, "success", True)
        }
        handed_in = [entry["id"] for body in farm.bodies["finish_many"] for entry in body["finished"]]
        assert handed_in == sorted(handed_in)
        assert farm.calls["finish"] + farm.calls["finish_many"] < 100
        assert (farm.calls["heartbeat"], worker.board.endings["success"]) == (0, 200)

    async def test_are_handed_in_one_by_one_without_prefetch(self, farm: FarmServer, transport: Any) -> None:
        worker = Worker(farm.url, KEY, transport=transport, prefetch=0)
        jobs = submitted(farm, 20)
        echo(worker)

        async with working(worker):
            await until(lambda: all(job.finishes for job in jobs))

        assert (farm.calls["finish"], farm.calls["finish_many"]) == (20, 0)
        assert {body.get("claim_next") for body in farm.bodies["finish"]} == {1}

    async def test_of_some_queues_alone_are_prefetched_too(self, farm: FarmServer, transport: Any) -> None:
        worker = Worker(farm.url, KEY, transport=transport, queues=["mine"], concurrency=2)
        jobs, others = submitted(farm, 60, queue="mine"), submitted(farm, 3)
        echo(worker)

        async with working(worker):
            await until(lambda: all(job.finishes for job in jobs))

        assert {job.fence for job in others} == {0}
        assert farm.calls["claim"] < 30

    async def test_that_fail_are_handed_in_with_the_others(self, farm: FarmServer, worker: Worker) -> None:
        jobs = submitted(farm, 40)

        @worker.handler("work")
        async def work(job: Job) -> None:
            if job.payload % 3 == 0:
                raise LookupError("no such thing")

        async with working(worker):
            await until(lambda: all(job.finishes for job in jobs))

        assert [job.status for job in jobs] == ["failed", "success", "success"] * 13 + ["failed"]

    async def test_whose_batch_is_refused_are_handed_in_one_by_one(self, farm: FarmServer, worker: Worker) -> None:
        jobs = submitted(farm, 40)
        echo(worker)
        farm.refusals["finish_many"] = [SayNo(413, "payload_too_large")]

        async with working(worker):
            await until(lambda: all(job.finishes for job in jobs))

        assert {(job.finishes, job.status) for job in jobs} == {(1, "success")}

    async def test_of_a_lost_lease_count_as_stopped_and_the_others_do_not(
        self, farm: FarmServer, worker: Worker
    ) -> None:
        jobs = submitted(farm, 60)

        @worker.handler("work")
        async def work(job: Job) -> None:
            if job.payload == 30:
                farm.take_away(farm.jobs[job.id])

        async with working(worker):
            await until(lambda: sum(worker.board.endings.values()) == 60)

        assert worker.board.endings == {"success": 59, "stopped": 1}
        assert [job.id for job in jobs if not job.finishes] == [31]

    async def test_of_plain_handlers_share_the_threads_that_there_are(self, farm: FarmServer, transport: Any) -> None:
        worker = Worker(farm.url, KEY, transport=transport, concurrency=3)
        jobs = submitted(farm, 150)
        threads: set[threading.Thread] = set()
        names: set[str] = set()

        @worker.handler("work")
        def work(job: Job) -> None:
            threads.add(threading.current_thread())
            names.add(threading.current_thread().name)

        async with working(worker):
            await until(lambda: all(job.finishes for job in jobs))
        await until(lambda: not any(thread.is_alive() for thread in threads))

        assert len(threads) <= 3
        assert names == {f"job {job.id}" for job in jobs}

    async def test_that_must_not_run_twice_begin_once_their_lease_is_confirmed(
        self, farm: FarmServer, worker: Worker
    ) -> None:
        jobs = submitted(farm, 20, retry_when_lost=False)
        begun: list[bool] = []
        worker.handler("work")(lambda job: begun.append(farm.jobs[job.id].is_confirmed))

        async with working(worker):
            await until(lambda: all(job.finishes for job in jobs))

        assert begun == [True] * 20


class TestOfAQueueWithACeiling:
    """What lies ready holds a place of the ceiling, which another worker may wait for."""

    async def test_no_more_are_held_than_run(self, farm: FarmServer, transport: Any) -> None:
        worker = Worker(farm.url, KEY, transport=transport, concurrency=2)
        jobs = submitted(farm, 60, has_ceiling=True)
        echo(worker)

        async with working(worker):
            await until(lambda: all(job.finishes for job in jobs))

        assert farm.most_held == 2
        assert {job.fence for job in jobs} == {1}

    async def test_what_comes_among_others_goes_back_at_once(self, farm: FarmServer, worker: Worker) -> None:
        before = submitted(farm, 30)
        limited = submitted(farm, 4, has_ceiling=True)
        gate = Gate(worker)
        long = farm.submit("work", "long", has_ceiling=True)
        behind = submitted(farm, 4, has_ceiling=True)

        async with working(worker):
            await gate.reached.wait()
            await until(lambda: all(job.status == "pending" for job in behind))
            assert farm.calls["heartbeat"] == 0, "before anything is late"
            gate.open.set()
            await until(lambda: all(job.finishes for job in behind))

        assert {job.finishes for job in [*before, *limited, long]} == {1}


async def test_jobs_of_a_queue_that_is_shared_out_lie_ready_and_their_ends_say_how_long_each_ran(
    farm: FarmServer, worker: Worker
) -> None:
    shared, plain = submitted(farm, 60, is_shared=True), submitted(farm, 3)
    echo(worker)

    async with working(worker):
        await until(lambda: all(job.finishes for job in [*shared, *plain]))

    entries = {entry["id"]: entry for body in farm.bodies["finish_many"] for entry in body["finished"]}
    assert farm.calls["finish"] + farm.calls["finish_many"] < 60
    assert {"ran_s" in entry for id_, entry in entries.items() if id_ in {job.id for job in shared}} == {True}
    assert not any("ran_s" in entries[job.id] for job in plain if job.id in entries)
    assert sum(entry.get("ran_s", 0) for entry in entries.values()) < 5, "of the run, not of what came before it"


async def test_a_worker_that_waits_asks_only_for_what_it_can_begin(farm: FarmServer, transport: Any) -> None:
    """Others may wait beside it: of the jobs that come then each gets what it has slots for."""
    worker = Worker(farm.url, KEY, transport=transport, concurrency=2)
    echo(worker)

    async with working(worker):
        first = submitted(farm, 60)
        await until(lambda: all(job.finishes for job in first))
        claims = farm.calls["claim"]
        await until(lambda: farm.calls["claim"] > claims or farm.bodies["claim"][-1]["wait"])

    assert {body["limit"] for body in farm.bodies["claim"]} <= {1, 2}


class TestNotBegun:
    async def test_goes_back_when_a_job_turns_out_to_be_long(self, farm: FarmServer, worker: Worker) -> None:
        _, long, after = with_a_long_one(farm)
        gate = Gate(worker)

        async with working(worker):
            await gate.reached.wait()
            await until(lambda: all(job.status == "pending" for job in after))
            assert (long.status, {job.attempt for job in after}) == ("in_progress", {0})
            gate.open.set()
            await until(lambda: all(job.finishes for job in after))

        assert len(gate.runs) == len(set(gate.runs)) == 51

    @pytest.mark.parametrize("is_shared", [False, True])
    async def test_goes_back_at_once_when_another_worker_waits(
        self, farm: FarmServer, socket_worker: Worker, monkeypatch: pytest.MonkeyPatch, is_shared: bool
    ) -> None:
        monkeypatch.setattr(session, "SHARES_S", 60.0)
        farm.heartbeat_every = 1000.0
        _, long, after = with_a_long_one(farm, is_shared=is_shared)
        gate = Gate(socket_worker)

        async with working(socket_worker):
            await gate.reached.wait()
            await until(lambda: after[0].status == "in_progress")
            farm.share()
            await until(lambda: all(job.status == "pending" for job in after))
            assert long.status == "in_progress"
            gate.open.set()
            await until(lambda: all(job.finishes for job in [long, *after]))

        handed_in = farm.bodies["finish"] + farm.bodies["finish_many"]
        [claimed_next] = [body.get("claim_next", 0) for body in handed_in if str(long.id) in _leases(body)]
        assert claimed_next <= 1, "for a while only what it can begin"

    async def test_goes_back_at_once_when_it_comes_while_another_worker_waits(
        self, farm: FarmServer, socket_worker: Worker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With the answer to a call that left before: it lay ready for half a second."""
        monkeypatch.setattr(session, "SHARES_S", 60.0)
        monkeypatch.setattr(claims, "LONGEST_READY_S", 60.0)
        farm.heartbeat_every = 1000.0
        farm.hold.add("finish")
        first, *after = submitted(farm, 1)[0], farm.submit("work", "long"), *submitted(farm, 5)
        gate = Gate(socket_worker)

        async with working(socket_worker):
            await until(lambda: first.finishes and after[1].status == "in_progress")
            farm.share()
            await until(lambda: socket_worker._session and socket_worker._session._shares_until_s)
            farm.hold.clear()
            await gate.reached.wait()
            await until(lambda: all(job.status == "pending" for job in after[1:]))
            gate.open.set()

    async def test_goes_back_at_once_on_a_stop(self, farm: FarmServer, worker: Worker) -> None:
        running, gate, long, after = await at_the_gate(farm, worker)
        worker.stop()
        await until(lambda: all(job.status == "pending" for job in after))
        assert long.status == "in_progress"
        gate.open.set()
        await asyncio.wait_for(running, 10)

        assert (long.status, {job.attempt for job in after}) == ("success", {0})

    async def test_goes_back_at_once_when_the_run_is_canceled(self, farm: FarmServer, worker: Worker) -> None:
        running, gate, long, after = await at_the_gate(farm, worker)
        running.cancel()
        await asyncio.wait({running}, timeout=10)

        assert {(job.status, job.attempt) for job in after} == {("pending", 0)}
        assert (running.cancelled(), long.status, gate.runs[-1]) == (True, "pending", long.id)

    async def test_and_canceled_never_begins(self, farm: FarmServer, socket_worker: Worker) -> None:
        """Over the socket the farm says so at once."""
        _, _, after = with_a_long_one(farm)
        gate = Gate(socket_worker)

        async with working(socket_worker):
            await gate.reached.wait()
            await until(lambda: after[0].status == "in_progress")
            farm.cancel(after[0])
            await until(lambda: socket_worker.board.endings["stopped"])
            gate.open.set()
            await until(lambda: all(job.finishes for job in after[1:]))

        assert after[0].id not in gate.runs

    async def test_is_named_by_no_call(self, farm: FarmServer, worker: Worker) -> None:
        """So it costs no attempt, whatever becomes of the worker."""
        _, long, after = with_a_long_one(farm)
        gate = Gate(worker)

        async with working(worker):
            await gate.reached.wait()
            await until(lambda: long.beats)
            assert not any(job.is_confirmed for job in after)
            gate.open.set()
            await until(lambda: all(job.finishes for job in after))

    async def test_is_there_for_another_worker_that_comes_late(self, farm: FarmServer, transport: Any) -> None:
        first, second = (Worker(farm.url, KEY, transport=transport) for _ in range(2))
        _, _, after = with_a_long_one(farm)
        gate, runs = Gate(first), Gate(second)

        async with working(first):
            await gate.reached.wait()
            async with working(second):
                await until(lambda: all(job.finishes for job in after))
            gate.open.set()

        assert set(runs.runs) == {job.id for job in after}
