"""What a lost answer costs: nothing. Claims and finishes are repeated, and leases confirmed. Against a small farm."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
import uvloop

from jobfarm_worker import Job, Worker, reports
from tests.worker.unit.outside import KEY, FarmServer, Least, SayNo, until, working


def requests(farm: FarmServer, verb: str) -> list[str]:
    """The request ids that came with a verb, in order."""
    return [body["request_id"] for body in farm.bodies[verb]]


class TestLostAnswer:
    async def test_to_a_claim_is_asked_for_once_more_and_brings_the_same_jobs(
        self, farm: FarmServer, worker: Worker
    ) -> None:
        farm.lose_answers["claim"] = 2
        jobs = [farm.submit("once", number) for number in range(3)]
        worker.handler("once")(lambda job: job.payload)

        async with working(worker):
            await until(lambda: all(job.finishes for job in jobs))

        first, second, third, *others = requests(farm, "claim")
        assert first == second == third
        assert len({first, *others}) == 1 + len(others)
        assert [(job.fence, job.status, job.result) for job in jobs] == [(1, "success", n) for n in range(3)]

    async def test_to_a_finish_loses_none_of_the_jobs_it_carried(self, farm: FarmServer, worker: Worker) -> None:
        """Every fourth answer is cut: of 60 jobs 13 were once taken by nobody and timed out."""
        jobs = [farm.submit("once", number) for number in range(40)]
        runs: list[int] = []

        @worker.handler("once")
        async def once(job: Job) -> None:
            runs.append(job.payload)
            if len(runs) % 4 == 0:
                farm.lose_answers["finish"] = farm.lose_answers["finish_many"] = 1

        async with working(worker):
            await until(lambda: all(job.finishes for job in jobs), timeout_s=60)

        assert sorted(runs) == list(range(40))
        assert {(job.fence, job.status, job.finishes) for job in jobs} == {(1, "success", 1)}
        by_lease: dict[str, set[str]] = {}
        for body in farm.bodies["finish"] + farm.bodies["finish_many"]:
            for entry in body.get("finished", [body]):
                by_lease.setdefault(entry["lease"], set()).add(body["request_id"])
        assert len(by_lease) == 40
        assert {len(ids) for ids in by_lease.values()} == {1}

    @pytest.mark.parametrize("verb", ["claim", "finish"])
    async def test_and_a_refusal_that_passes_keep_the_request(
        self, farm: FarmServer, worker: Worker, verb: str
    ) -> None:
        farm.refusals[verb] = [SayNo(503, "unavailable"), SayNo(429, "rate_limited", retry_after=0.01)]
        job = farm.submit("once")
        worker.handler("once")(lambda _job: "done")

        async with working(worker):
            await until(lambda: job.finishes)

        assert len(set(requests(farm, verb)[:3])) == 1

    async def test_to_a_claim_is_given_up_once_what_it_took_has_been_taken_back(self, farm: FarmServer) -> None:
        farm.heartbeat_every = 0.2
        worker = Worker(farm.url, KEY, transport="http")
        worker.rng = Least()
        worker.handler("once")(lambda _job: None)

        async with working(worker):
            first = farm.submit("once")
            await until(lambda: first.finishes)
            claims = farm.calls["claim"]
            farm.never_waits, farm.lose_answers["claim"] = True, 1000
            await until(lambda: len(set(requests(farm, "claim")[claims:])) > 2, timeout_s=60)

        sent = requests(farm, "claim")[claims:]
        assert max(sent.count(each) for each in sent) > 1

    async def test_that_comes_when_nobody_waits_any_more_gives_its_jobs_back(self, farm: FarmServer) -> None:
        worker = Worker(farm.url, KEY, transport="ws", concurrency=2, grace_s=0)

        @worker.handler("wait")
        async def wait(_job: Job) -> None:
            await asyncio.sleep(60)

        running = asyncio.create_task(worker.run())
        held = farm.submit("wait")
        await until(lambda: worker.board.jobs and farm.calls["claim"] > 1)
        farm.hold = {"claim", "release"}
        late = farm.submit("wait")
        await until(lambda: late.status == "in_progress")
        worker.stop()
        await until(lambda: farm.calls["release"])  # by then the claim is not waited for
        farm.hold = {"release"}
        await until(lambda: farm.calls["unclaim"])
        farm.hold = set()
        await asyncio.wait_for(running, 10)
        assert (held.status, late.status, late.is_confirmed) == ("pending", "pending", False)


class TestLostLease:
    @pytest.mark.parametrize(
        ("because", "sentence"),
        [
            ("taken_over", "another worker has it"),
            ("taken_back", "its lease ran out, and it waits again"),
            ("unknown", "No: lease_lost."),
        ],
    )
    async def test_at_the_finish_counts_as_stopped_and_says_why(
        self, farm: FarmServer, worker: Worker, caplog: pytest.LogCaptureFixture, because: str, sentence: str
    ) -> None:
        caplog.set_level(logging.INFO, logger="jobfarm_worker")

        @worker.handler("lose")
        async def lose(job: Job) -> None:
            farm.take_away(farm.jobs[job.id])
            farm.jobs[job.id].lost_because = because

        async with working(worker):
            job = farm.submit("lose")
            await until(lambda: worker.board.endings)

        assert (job.finishes, dict(worker.board.endings)) == (0, {"stopped": 1})
        assert sentence in caplog.text
        assert max(record.levelno for record in caplog.records) < logging.ERROR

    async def test_after_a_lost_answer_is_not_taken_for_our_own_finish(self, farm: FarmServer, worker: Worker) -> None:
        """The first sending met a farm that fell; before the second another worker had the job."""
        farm.refusals["finish"] = [SayNo(503, "unavailable")]

        @worker.handler("lose")
        async def lose(job: Job) -> None:
            farm.take_away(farm.jobs[job.id])

        async with working(worker):
            farm.submit("lose")
            await until(lambda: worker.board.endings)

        assert dict(worker.board.endings) == {"stopped": 1}

    async def test_by_an_end_says_how_it_ended(self, farm: FarmServer, caplog: pytest.LogCaptureFixture) -> None:
        worker = Worker(farm.url, KEY, transport="http")
        caplog.set_level(logging.INFO, logger="jobfarm_worker")

        @worker.handler("late")
        async def late(job: Job) -> None:
            farm.jobs[job.id].status = "timed_out"

        async with working(worker):
            farm.submit("late")
            await until(lambda: worker.board.endings)

        assert "(it had ended: timed out)" in caplog.text


class TestConfirmation:
    async def test_is_sent_soon_while_the_handler_runs(self, farm: FarmServer, worker: Worker) -> None:
        go_on = asyncio.Event()

        @worker.handler("wait")
        async def wait(_job: Job) -> None:
            await go_on.wait()

        async with working(worker):
            job = farm.submit("wait")
            await until(lambda: job.is_confirmed)  # the next heartbeat would be due after 20 s
            go_on.set()
            await until(lambda: job.finishes)

    async def test_costs_no_call_where_another_names_the_lease(self, farm: FarmServer, worker: Worker) -> None:
        @worker.handler("write")
        async def write(job: Job) -> None:
            job.write("Hello.")
            if job.payload == "wait":
                await job.flush()
                await asyncio.sleep(0.5)

        async with working(worker):
            waiting = farm.submit("write", "wait")
            quick = [farm.submit("write") for _ in range(10)]
            await until(lambda: all(job.finishes for job in (waiting, *quick)))

        assert (waiting.beats, farm.calls["output"]) == (0, 11)

    async def test_is_waited_for_where_a_job_must_not_run_twice(self, farm: FarmServer, worker: Worker) -> None:
        farm.hold = {"heartbeat"}
        runs: list[int] = []
        worker.handler("pay")(lambda job: runs.append(job.id))

        async with working(worker):
            job = farm.submit("pay", retry_when_lost=False)
            await until(lambda: job.is_confirmed)
            before = list(runs)
            farm.hold = set()
            await until(lambda: job.finishes)

        assert (before, runs, job.status) == ([], [job.id], "success")

    async def test_of_such_a_job_is_sent_at_once(
        self, farm: FarmServer, worker: Worker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reports, "CONFIRM_S", 60.0)  # or after a heartbeat interval, which is 20 s
        worker.handler("pay")(lambda _job: "paid")

        async with working(worker):
            job = farm.submit("pay", retry_when_lost=False)
            await until(lambda: job.finishes)

        assert (job.beats, job.result) == (1, "paid")

    def test_of_several_such_jobs_that_came_together_is_sent_on_uvloop(self, farm: FarmServer, worker: Worker) -> None:
        """Its timers for this very moment are no timers of asyncio's: nobody may ask when they are due."""
        jobs = [farm.submit("pay", retry_when_lost=False) for _ in range(5)]
        worker.concurrency = len(jobs)
        worker.handler("pay")(lambda _job: "paid")

        async def run() -> None:
            async with working(worker):
                await until(lambda: all(job.finishes for job in jobs))

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run())
        assert [job.result for job in jobs] == ["paid"] * len(jobs)

    async def test_that_is_refused_drops_such_a_job_without_running_it(self, farm: FarmServer, worker: Worker) -> None:
        farm.refusals["heartbeat"] = [SayNo(409, "lease_lost", reason="taken_back")]
        runs: list[int] = []
        worker.handler("pay")(lambda job: runs.append(job.id))

        async with working(worker):
            job = farm.submit("pay", retry_when_lost=False)
            await until(lambda: worker.board.endings)
            farm.take_back(job)
            await until(lambda: job.finishes)

        assert (runs, dict(worker.board.endings)) == ([job.id], {"stopped": 1, "success": 1})

    async def test_that_was_not_heard_is_asked_for_again(self, farm: FarmServer, worker: Worker) -> None:
        farm.lose_answers["heartbeat"] = 2
        runs: list[int] = []
        worker.handler("pay")(lambda job: runs.append(job.id))

        async with working(worker):
            job = farm.submit("pay", retry_when_lost=False)
            await until(lambda: job.finishes, timeout_s=30)

        assert (runs, job.beats) == ([job.id], 3)

    async def test_under_way_does_not_hold_up_a_worker_that_leaves(self, farm: FarmServer, worker: Worker) -> None:
        farm.hold = {"heartbeat"}
        runs: list[int] = []
        worker.handler("pay")(lambda job: runs.append(job.id))

        async with working(worker):
            job = farm.submit("pay", retry_when_lost=False)
            await until(lambda: job.beats)

        assert (runs, job.status, farm.calls["release"]) == ([], "pending", 1)


class TestJob:
    async def test_knows_which_attempt_of_how_many_it_is(self, farm: FarmServer, worker: Worker) -> None:
        worker.handler("ask")(lambda job: [job.attempt, job.max_attempts])

        async with working(worker):
            job = farm.submit("ask", max_attempts=5)
            await until(lambda: job.finishes)

        assert job.result == [1, 5]


class TestHealthyWorker:
    async def test_logs_nothing_to_worry_about_and_asks_about_no_job_it_has_handed_in(
        self, farm: FarmServer, worker: Worker, caplog: pytest.LogCaptureFixture
    ) -> None:
        farm.heartbeat_every = 0.05

        @worker.handler("busy")
        async def busy(job: Job) -> None:
            for number in range(3):
                job.progress(number / 3, "Working")
                await asyncio.sleep(0.02)
            job.progress(1)

        async with working(worker):
            jobs = [farm.submit("busy") for _ in range(20)]
            await until(lambda: all(job.finishes for job in jobs), timeout_s=30)

        assert farm.refused_leases == []
        assert [record.getMessage() for record in caplog.records if record.levelno > logging.INFO] == []

    async def test_says_nothing_more_of_a_job_after_its_finish(self, farm: FarmServer, transport: Any) -> None:
        farm.heartbeat_every = 0.05
        farm.hold = {"finish"}
        worker = Worker(farm.url, KEY, transport=transport, concurrency=2)
        go_on = asyncio.Event()

        @worker.handler("busy")
        async def busy(job: Job) -> None:
            if job.payload == "long":
                await go_on.wait()

        async with working(worker):
            long, short = farm.submit("busy", "long"), farm.submit("busy", "short")
            await until(lambda: short.finishes and long.beats)
            at = long.beats
            await until(lambda: long.beats > at + 4)  # as many as the other would have sent
            go_on.set()
            await until(lambda: long.finishes)
            farm.hold = set()
            await until(lambda: worker.board.endings["success"] == 2)

        assert farm.refused_leases == []

    @pytest.mark.parametrize("answer", ["good", "bad"])
    async def test_ignores_the_answer_to_a_heartbeat_that_its_finish_overtook(
        self, farm: FarmServer, worker: Worker, caplog: pytest.LogCaptureFixture, answer: str
    ) -> None:
        if answer == "bad":
            farm.refusals["heartbeat"] = [SayNo(409, "lease_lost", reason="ended")]
        farm.hold = {"heartbeat"}

        @worker.handler("busy")
        async def busy(job: Job) -> Any:
            job.progress(0.5)
            await until(lambda: farm.calls["heartbeat"])

        async with working(worker):
            job = farm.submit("busy")
            await until(lambda: job.finishes)
            farm.hold = set()
            following = farm.submit("busy")
            await until(lambda: following.finishes)

        assert dict(worker.board.endings) == {"success": 2}
        assert [record.getMessage() for record in caplog.records if record.levelno > logging.INFO] == []

    @pytest.mark.parametrize(
        "answer",
        [SayNo(409, "lease_lost", reason="ended"), SayNo(422, "invalid")],
        ids=["its lease is lost", "it is wrong"],
    )
    async def test_ignores_the_answer_to_a_heartbeat_that_comes_before_that_to_its_finish(
        self, farm: FarmServer, transport: Any, caplog: pytest.LogCaptureFixture, answer: SayNo
    ) -> None:
        worker = Worker(farm.url, KEY, transport=transport, concurrency=2)
        farm.refusals["heartbeat"] = [answer]
        farm.hold = {"heartbeat", "finish"}

        @worker.handler("busy")
        async def busy(job: Job) -> Any:
            job.progress(0.5)
            await until(lambda: farm.calls["heartbeat"])

        worker.handler("write")(lambda job: job.write("There."))
        async with working(worker):
            farm.submit("busy")
            await until(lambda: farm.calls["finish"])
            farm.hold = {"finish"}
            await until(lambda: farm.answered["heartbeat"])
            other = farm.submit("write")  # once it has been heard of, so has that answer
            await until(lambda: other.text)
            farm.hold = set()
            await until(lambda: worker.board.endings["success"] == 2)

        assert dict(worker.board.endings) == {"success": 2}
        assert [record.getMessage() for record in caplog.records if record.levelno > logging.INFO] == []

    async def test_is_not_stopped_by_what_it_has_handed_in_already(
        self, farm: FarmServer, socket_worker: Worker, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The farm says stop while the finish is under way: the answer to that says what became of it."""
        socket_worker.handler("busy")(lambda _job: "done")
        farm.hold = {"finish"}
        async with working(socket_worker):
            job = farm.submit("busy")
            await until(lambda: job.finishes)
            farm.push_stop(job)
            farm.hold = set()
            await until(lambda: socket_worker.board.endings)

        assert dict(socket_worker.board.endings) == {"success": 1}
        assert [record.getMessage() for record in caplog.records if record.levelno > logging.INFO] == []
