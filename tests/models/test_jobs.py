"""Jobs under any sequence of calls: the database against a model of a few lines (job_model).

Two honest workers, one that freezes and comes back, and one whose calls arrive late, twice or out of order: they keep
every lease they ever had, and speak with any of them at any moment. Answers get lost, so any call is made again.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from core.backoff import Backoff
from jobs import operations
from jobs.domain.states import ENDED
from jobs.errors import LeaseLost, NotEnded, OutputGap
from jobs.models import Job, Reachability, Worker
from tests import farm
from tests.models.effort import begin, effort
from tests.models.job_model import ATTEMPTS, COLUMNS, Model

pytestmark = pytest.mark.django_db(transaction=True)

NAMES = ("honest", "also honest", "freezes", "repeats")
# No dice: the same calls lead to the same rows, or a failing sequence could not be made shorter.
AN_HOUR = Backoff(first_s=3600, base=1, cap_s=3600, jitter=0)
# What somebody may do at any moment: workers (whose calls may be late, or come again), people, and time.
CALLS = (
    *("submit", "claim", "claim", "claim", "claim"),
    *("finish", "finish", "swap", "swap", "release", "heartbeat", "heartbeat", "keep", "keep", "write", "write"),
    *("cancel", "cancel", "retry", "pause_or_resume"),
    *("fall_silent", "fall_silent", "janitor", "janitor", "hours", "go_deaf_or_listen"),
)
# Drawn whatever there is to choose from: which of two jobs of one moment is claimed is PostgreSQL's to say, and the
# same dice must be thrown the next time.
PLACES = st.integers(0, 999)
TWISTS = st.sampled_from(["as it is"] * 4 + ["of another worker", "of another number"])
NAMES_OF_CALLS = st.sampled_from([None, None, "a", "b"])
LONG_S = 7200.0  # longer than any lease, backoff and grace


class JobsMachine(RuleBasedStateMachine):
    """Every step is a call that somebody may make at any moment; the invariant compares all rows with the model."""

    @initialize()
    def start(self) -> None:
        begin(
            *("jobs_job", "jobs_live", "jobs_outcome", "jobs_lane", "jobs_mark", "jobs_kind", "jobs_worker"),
            *("jobs_queue", "jobs_reachability", "jobs_checkpoint"),
        )  # fmt: skip
        alike: dict[str, Any] = {"queue": "work", "max_attempts": ATTEMPTS, "backoff": AN_HOUR}
        farm.kind("once", retry_when_lost=False, **alike)
        farm.kind("again", **alike)
        self.workers = [farm.worker(name) for name in NAMES]
        self.jobs: dict[int, Model] = {}
        self.paused = self.deaf = False
        self.submit("once", 2)
        self.submit("again", 2)

    def submit(self, kind: str, count: int) -> None:
        self.jobs |= {job.pk: Model(kind) for job in farm.submit(count, kind)}

    def claim(self, who: Worker, limit: int, name: str | None = None) -> None:
        current = self._current(who, name) if name else {}
        self._got(who, operations.claim(who, limit=limit, request_id=name), limit, name, current)

    def _current(self, who: Worker, request: object) -> dict[int, Model]:
        return {pk: job for pk, job in self.jobs.items() if job.stands_unconfirmed(who, request)}

    def _got(
        self, who: Worker, claimed: list[operations.ClaimedJob], limit: int, request: object, current: dict[int, Model]
    ) -> None:
        """What a claim brought: exactly what stands of its first sending, else jobs that were to be had."""
        if current:
            assert {one.id: one.lease for one in claimed} == {
                pk: job.leases[-1][1].lease for pk, job in current.items()
            }
            for job in current.values():
                job.silent = False
            return
        ready = [pk for pk, job in self.jobs.items() if job.is_for(who)]
        assert len(claimed) == (0 if self.paused else min(limit, len(ready)))
        assert not {one.id for one in claimed} - set(ready)
        for one in claimed:
            self.jobs[one.id].claim(who, one, request=request)

    @rule(data=st.data(), verb=st.sampled_from(CALLS))
    def call(self, data: st.DataObject, verb: str) -> None:
        """One rule and not one for each call: Hypothesis leaves out rules, and without claims nothing happens."""
        getattr(self, f"_{verb}")(data)

    def _submit(self, data: st.DataObject) -> None:
        self.submit(data.draw(st.sampled_from(["once", "again"])), data.draw(st.integers(1, 3)))

    def _claim(self, data: st.DataObject) -> None:
        who = self.workers[data.draw(st.integers(0, 3))]
        self.claim(who, data.draw(st.integers(1, 4)), data.draw(NAMES_OF_CALLS))

    def _finish(self, data: st.DataObject) -> None:
        good, retryable = data.draw(st.booleans()), data.draw(st.booleans())
        for who, lease in self._some_leases(data, most=3):
            answer = farm.succeed(who, lease) if good else farm.fail(who, lease, retryable=retryable)
            self._handed_in(who, lease, answer, good=good, retryable=retryable)

    def _handed_in(
        self, who: Worker, lease: operations.ClaimedJob, answer: Any, *, good: bool, retryable: bool = True
    ) -> bool:
        """Check the answer to a finish; whether it was a repeat."""
        job, key = self.jobs[lease.id], (who.pk, lease.lease)
        if job.accepts(who, lease):
            job.succeed() if good else job.fail("failed", retryable=retryable, waits=True)
            job.answers[key] = job.status
            assert answer == job.status
            return False
        if key in job.answers:
            assert answer == job.answers[key]
            return True
        assert isinstance(answer, LeaseLost)
        assert answer.numbers == job.why_lost(lease)
        return False

    def _swap(self, data: st.DataObject) -> None:
        """Hand in one job for the next ones; the same again brings what came with the first answer."""
        limit = data.draw(st.integers(1, 2))
        for who, lease in self._some_leases(data, most=2):
            request = ("finish", lease.id, lease.lease)
            done = operations.Finished(job_id=lease.id, lease=lease.lease, outcome="success")
            is_new = self.jobs[lease.id].accepts(who, lease)
            [answer], claimed = operations.finish_and_claim(who, [done], limit=limit)
            is_repeat = self._handed_in(who, lease, answer, good=True)
            current = {} if is_new else self._current(who, request)
            if is_repeat and not current:
                assert claimed == []
            else:  # one that is refused may be a repeat too
                self._got(who, claimed, limit, request, current)

    def _release(self, data: st.DataObject) -> None:
        for who, lease in self._some_leases(data, most=1):
            job, key = self.jobs[lease.id], (who.pk, lease.lease)
            if key in job.released and not job.accepts(who, lease):
                operations.release(who, lease.id, lease.lease)
            elif self._is_listening(operations.release, who, lease):
                job.release()
                job.released.add(key)

    def _heartbeat(self, data: st.DataObject) -> None:
        for who, lease in self._some_leases(data, most=2):
            if self._is_listening(operations.heartbeat, who, lease, progress=0.5):
                self.jobs[lease.id].confirm()

    def _keep(self, data: st.DataObject) -> None:
        """A checkpoint in place of the last, or of none."""
        value = data.draw(st.sampled_from([None, 1, {"pages": 2}]))
        for who, lease in self._some_leases(data, most=1):
            if self._is_listening(operations.checkpoint, who, lease, value=value):
                self.jobs[lease.id].confirm()
                self.jobs[lease.id].checkpoint = value

    def _write(self, data: st.DataObject) -> None:
        """A piece of output: the next one, one that was sent before, or one that comes too early."""
        seq = data.draw(st.integers(0, 3))
        for who, lease in self._some_leases(data, most=1):
            job = self.jobs[lease.id]
            if job.accepts(who, lease) and seq > len(job.text):
                with pytest.raises(OutputGap):
                    operations.write_output(who, lease.id, lease.lease, seq=seq, text=str(seq))
            elif self._is_listening(operations.write_output, who, lease, seq=seq, text=str(seq)):
                job.confirm()
                job.text += str(seq) if seq == len(job.text) else ""

    def _cancel(self, data: st.DataObject) -> None:
        for pk, job in self._some_job(data):
            assert operations.cancel(pk, by=None).verdict == job.cancel()

    def _retry(self, data: st.DataObject) -> None:
        for pk, job in self._some_job(data):
            try:
                again = operations.retry(pk, by=None)
            except NotEnded:
                assert job.status not in ENDED
            else:
                assert job.status in ENDED
                self.jobs[again.pk] = Model(job.kind, checkpoint=None if job.status == "success" else job.checkpoint)

    def _fall_silent(self, data: st.DataObject) -> None:
        for _, lease in self._some_leases(data, most=1):
            job = self.jobs[lease.id]
            if job.status == "in_progress":
                farm.expire_lease(lease, is_confirmed=False)
                job.silent = True

    def _janitor(self, _: st.DataObject | None = None) -> None:
        silent = [job for job in self.jobs.values() if job.silent and not self.deaf]
        assert operations.sweep().taken_back == len(silent)
        for job in silent:
            job.be_taken_back()

    def _go_deaf_or_listen(self, _: st.DataObject | None = None) -> None:
        """While the farm hears nobody, nothing is held against anybody."""
        self.deaf = not self.deaf
        Reachability.objects.all().delete()
        if self.deaf:
            Reachability.objects.create(since=Now() - timedelta(hours=9), until=Now() - timedelta(hours=1))

    def _hours(self, _: st.DataObject | None = None) -> None:
        """Backoffs and graces are over, and every lease that was held has run out."""
        if self.deaf:
            self._go_deaf_or_listen()
        for pk, job in self._live():
            farm.pass_time(Job(pk=pk), LONG_S)
            job.silent = job.status == "in_progress"
        self._janitor()
        for pk, job in self._live():
            farm.pass_time(Job(pk=pk), LONG_S)
            job.waits, job.hidden_from = False, set()
        operations.sweep()

    def _pause_or_resume(self, _: st.DataObject | None = None) -> None:
        (operations.resume if self.paused else operations.pause)("work", by=None)
        self.paused = not self.paused

    @invariant()
    def rows_are_as_the_model_says(self) -> None:
        stored = {job.pk: tuple(getattr(job, name) for name in COLUMNS) for job in Job.objects.all()}
        assert stored == {pk: job.row for pk, job in self.jobs.items()}

    def teardown(self) -> None:
        """However it went: with one honest worker and some time every job ends."""
        if self.paused:
            self._pause_or_resume()
        while self._live():
            self._hours()
            self.claim(self.workers[0], 4)
            self._finish_what_is_held()
        self.rows_are_as_the_model_says()

    def _finish_what_is_held(self) -> None:
        for job in self.jobs.values():
            if job.status == "in_progress":
                assert farm.succeed(*job.leases[-1]) == "success"
                job.succeed()

    def _is_listening(self, call: Callable[..., Any], who: Worker, lease: operations.ClaimedJob, **fields: Any) -> bool:
        """Make the call; whether it was accepted, which must be as the model says, and a refusal true."""
        job = self.jobs[lease.id]
        if job.accepts(who, lease):
            call(who, lease.id, lease.lease, **fields)
            return True
        with pytest.raises(LeaseLost) as refusal:
            call(who, lease.id, lease.lease, **fields)
        assert refusal.value.numbers == job.why_lost(lease)
        return False

    def _live(self) -> list[tuple[int, Model]]:
        return [(pk, job) for pk, job in self.jobs.items() if job.status not in ENDED]

    def _some_job(self, data: st.DataObject) -> list[tuple[int, Model]]:
        jobs, place = list(self.jobs.items()), data.draw(PLACES)
        return [jobs[place % len(jobs)]] if jobs else []

    def _some_leases(self, data: st.DataObject, *, most: int) -> list[tuple[Worker, operations.ClaimedJob]]:
        """Leases that somebody was ever given; now and then another worker speaks with one, or its secret is wrong."""
        drawn = data.draw(st.lists(st.tuples(PLACES, TWISTS), min_size=1, max_size=most))
        wants_held = data.draw(st.booleans())
        known = [lease for job in self.jobs.values() for lease in job.leases]
        held = [job.leases[-1] for job in self.jobs.values() if job.status == "in_progress"]
        some = held if held and wants_held else known
        return [self._twisted(twist, *some[place % len(some)]) for place, twist in drawn if some]

    def _twisted(self, twist: str, who: Worker, lease: operations.ClaimedJob) -> tuple[Worker, operations.ClaimedJob]:
        match twist:
            case "of another worker":
                return next(worker for worker in self.workers if worker != who), lease
            case "of another number":
                return who, replace(lease, lease=replace(lease.lease, fence=lease.lease.fence + 1))
        return who, lease


class TestJobs:
    def test_are_what_the_model_says_after_any_calls(self) -> None:
        run_state_machine_as_test(JobsMachine, settings=effort(examples=30, steps=60))
