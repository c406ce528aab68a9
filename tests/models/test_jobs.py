"""Jobs under any sequence of calls: the database against a model of a few lines.

Two honest workers, one that freezes and comes back, and one whose calls arrive late, twice or out of order: they keep
every lease they ever had, and speak with any of them at any moment.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from jobs import operations
from jobs.domain.retries import Backoff
from jobs.domain.states import ENDED, may_move
from jobs.errors import LeaseLost, NotEnded, OutputGap
from jobs.models import Job, Worker
from tests import farm
from tests.models.effort import begin, effort

pytestmark = pytest.mark.django_db(transaction=True)

NAMES = ("honest", "also honest", "freezes", "repeats")
# No dice: the same calls lead to the same rows, or a failing sequence could not be made shorter.
AN_HOUR = Backoff(first_s=3600, base=1, cap_s=3600, jitter=0)
# What somebody may do at any moment: workers (whose calls may be late, or come again), people, and time.
CALLS = (
    *("submit", "claim", "claim", "claim", "claim"),
    *("finish", "finish", "finish", "release", "heartbeat", "heartbeat", "write", "write", "write"),
    *("cancel", "cancel", "retry", "pause_or_resume"),
    *("fall_silent", "fall_silent", "janitor", "hours"),
)
# Drawn whatever there is to choose from: which of two jobs of one moment is claimed is PostgreSQL's to say, and the
# same dice must be thrown the next time.
PLACES = st.integers(0, 999)
TWISTS = st.sampled_from(["as it is"] * 4 + ["of another worker", "of another number"])
LONG_S = 7200.0  # longer than any lease, backoff and grace
ATTEMPTS = 3


@dataclass
class Model:
    """What a job should be. `leases` are all that were ever given for it, with the worker who got each."""

    kind: str
    status: str = "pending"
    claims: int = 0
    failures: int = 0
    waits: bool = False  # for its backoff, or for somebody who has not failed it yet
    silent: bool = False  # its lease ran out, and nobody has looked
    text: str = ""
    leases: list[tuple[Worker, operations.Claimed]] = field(default_factory=list)

    def move(self, status: str, *, failed: bool = False) -> None:
        """One line of the table of moves."""
        assert may_move(self.status, status), (self.status, status)  # type: ignore[arg-type]
        self.status, self.silent, self.failures = status, False, self.failures + failed
        self.waits = status == "pending" and failed

    def fail(self, end: str, *, retryable: bool) -> None:
        """An attempt ended without success: another one, if there may be one, else this end."""
        again = retryable and self.failures + 1 < ATTEMPTS
        self.move("pending" if again else end, failed=True)

    def accepts(self, who: Worker, lease: operations.Claimed) -> bool:
        """Whether a call of `who` with this lease may change anything."""
        holder, last = self.leases[-1]
        return self.status == "in_progress" and not self.silent and lease is last and holder is who


class JobsMachine(RuleBasedStateMachine):
    """Every step is a call that somebody may make at any moment; the invariant compares all rows with the model."""

    @initialize()
    def start(self) -> None:
        begin("jobs_job", "jobs_kind", "jobs_worker", "jobs_queue")
        alike: dict[str, Any] = {"queue": "work", "max_attempts": ATTEMPTS, "backoff": AN_HOUR}
        farm.kind("plain", retry_on_timeout=False, **alike)
        farm.kind("again", retry_on_timeout=True, **alike)
        self.workers = [farm.worker(name) for name in NAMES]
        self.jobs: dict[int, Model] = {}
        self.paused = False
        self.submit("plain", 2)
        self.submit("again", 2)

    def submit(self, kind: str, count: int) -> None:
        self.jobs |= {job.pk: Model(kind) for job in farm.submit(count, kind)}

    def claim(self, who: int, limit: int) -> None:
        worker = self.workers[who]
        claimed = operations.claim(worker, limit=limit)
        ready = [pk for pk, job in self.jobs.items() if job.status == "pending" and not job.waits]
        assert len(claimed) == (0 if self.paused else min(limit, len(ready)))
        assert not {one.id for one in claimed} - set(ready)
        for one in claimed:
            job = self.jobs[one.id]
            job.move("in_progress")
            job.claims, job.text = job.claims + 1, ""
            job.leases.append((worker, one))
            assert (one.attempt, one.lease.claim_no) == (job.claims, job.claims)

    @rule(data=st.data(), verb=st.sampled_from(CALLS))
    def call(self, data: st.DataObject, verb: str) -> None:
        """One rule and not one for each call: Hypothesis leaves out rules, and without claims nothing happens."""
        getattr(self, f"_{verb}")(data)

    def _submit(self, data: st.DataObject) -> None:
        self.submit(data.draw(st.sampled_from(["plain", "again"])), data.draw(st.integers(1, 3)))

    def _claim(self, data: st.DataObject) -> None:
        self.claim(data.draw(st.integers(0, 3)), data.draw(st.integers(1, 4)))

    def _finish(self, data: st.DataObject) -> None:
        good, retryable = data.draw(st.booleans()), data.draw(st.booleans())
        for who, lease in self._some_leases(data, most=3):
            job, accepted = self.jobs[lease.id], self.jobs[lease.id].accepts(who, lease)
            answer = farm.succeed(who, lease) if good else farm.fail(who, lease, retryable=retryable)
            assert isinstance(answer, LeaseLost) is not accepted
            if accepted and good:
                job.move("success")
            elif accepted:
                job.fail("failed", retryable=retryable)

    def _release(self, data: st.DataObject) -> None:
        for who, lease in self._some_leases(data, most=1):
            if self._is_heard(operations.release, who, lease):
                self.jobs[lease.id].move("pending")

    def _heartbeat(self, data: st.DataObject) -> None:
        for who, lease in self._some_leases(data, most=2):
            self._is_heard(operations.heartbeat, who, lease, progress=0.5)

    def _write(self, data: st.DataObject) -> None:
        """A piece of output: the next one, one that was sent before, or one that comes too early."""
        seq = data.draw(st.integers(0, 3))
        for who, lease in self._some_leases(data, most=1):
            job = self.jobs[lease.id]
            if job.accepts(who, lease) and seq > len(job.text):
                with pytest.raises(OutputGap):
                    operations.write_output(who, lease.id, lease.lease, seq=seq, text=str(seq))
            elif self._is_heard(operations.write_output, who, lease, seq=seq, text=str(seq)):
                job.text += str(seq) if seq == len(job.text) else ""

    def _cancel(self, data: st.DataObject) -> None:
        for pk, job in self._some_job(data):
            expected = "canceled_while_running" if job.status == "in_progress" else "too_late"
            if job.status == "pending":
                expected = "canceled_before_retry" if job.claims else "canceled_before_start"
            assert operations.cancel(pk, by=None).verdict == expected
            if expected != "too_late":
                job.move("canceled")

    def _retry(self, data: st.DataObject) -> None:
        for pk, job in self._some_job(data):
            try:
                again = operations.retry(pk, by=None)
            except NotEnded:
                assert job.status not in ENDED
            else:
                assert job.status in ENDED
                self.jobs[again.pk] = Model(job.kind)

    def _fall_silent(self, data: st.DataObject) -> None:
        for _, lease in self._some_leases(data, most=1):
            job = self.jobs[lease.id]
            if job.status == "in_progress":
                farm.expire_lease(lease)
                job.silent = True

    def _janitor(self, _: st.DataObject | None = None) -> None:
        silent = [job for job in self.jobs.values() if job.silent]
        assert operations.sweep().taken_back == len(silent)
        for job in silent:
            job.fail("timed_out", retryable=job.kind == "again")

    def _hours(self, _: st.DataObject | None = None) -> None:
        """Backoffs and graces are over, and every lease that was held has run out."""
        for pk, job in self._live():
            farm.pass_time(Job(pk=pk), LONG_S)
            job.silent = job.status == "in_progress"
        self._janitor()
        for pk, job in self._live():
            if job.waits:
                farm.pass_time(Job(pk=pk), LONG_S)
                job.waits = False
        operations.sweep()

    def _pause_or_resume(self, _: st.DataObject | None = None) -> None:
        (operations.resume if self.paused else operations.pause)("work", by=None)
        self.paused = not self.paused

    @invariant()
    def rows_are_as_the_model_says(self) -> None:
        columns = ("pk", "status", "claim_no", "failures", "next_seq")
        stored = {pk: tuple(rest) for pk, *rest in Job.objects.values_list(*columns)}
        assert stored == {
            pk: (job.status, job.claims, job.failures, len(job.text)) for pk, job in self.jobs.items()
        }

    def teardown(self) -> None:
        """However it went: with one honest worker and some time every job ends."""
        if self.paused:
            self._pause_or_resume()
        for _ in range(ATTEMPTS + 1):
            self._hours()
            self.claim(0, 4)
            self._finish_what_is_held()
        while self._live():
            self.claim(0, 4)
            self._finish_what_is_held()
        self.rows_are_as_the_model_says()

    def _finish_what_is_held(self) -> None:
        for job in self.jobs.values():
            if job.status == "in_progress":
                assert farm.succeed(*job.leases[-1]) == "success"
                job.move("success")

    def _is_heard(
        self, call: Callable[..., Any], who: Worker, lease: operations.Claimed, **said: Any
    ) -> bool:
        """Make the call; whether it was accepted, which must be as the model says."""
        accepted = self.jobs[lease.id].accepts(who, lease)
        try:
            call(who, lease.id, lease.lease, **said)
        except LeaseLost:
            assert not accepted
            return False
        assert accepted
        return True

    def _live(self) -> list[tuple[int, Model]]:
        return [(pk, job) for pk, job in self.jobs.items() if job.status not in ENDED]

    def _some_job(self, data: st.DataObject) -> list[tuple[int, Model]]:
        jobs, place = list(self.jobs.items()), data.draw(PLACES)
        return [jobs[place % len(jobs)]] if jobs else []

    def _some_leases(self, data: st.DataObject, *, most: int) -> list[tuple[Worker, operations.Claimed]]:
        """Leases that somebody was ever given; now and then another worker speaks with one, or its secret is wrong."""
        drawn = data.draw(st.lists(st.tuples(PLACES, TWISTS), min_size=1, max_size=most))
        wants_held = data.draw(st.booleans())
        known = [lease for job in self.jobs.values() for lease in job.leases]
        held = [job.leases[-1] for job in self.jobs.values() if job.status == "in_progress"]
        some = held if held and wants_held else known
        return [self._twisted(twist, *some[place % len(some)]) for place, twist in drawn if some]

    def _twisted(
        self, twist: str, who: Worker, lease: operations.Claimed
    ) -> tuple[Worker, operations.Claimed]:
        match twist:
            case "of another worker":
                return next(worker for worker in self.workers if worker != who), lease
            case "of another number":
                return who, replace(lease, lease=replace(lease.lease, claim_no=lease.lease.claim_no + 1))
        return who, lease


class TestJobs:
    def test_are_what_the_model_says_after_any_calls(self) -> None:
        run_state_machine_as_test(JobsMachine, settings=effort(examples=30, steps=60))
