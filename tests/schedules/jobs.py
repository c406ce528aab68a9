"""A farm of five jobs and three workers, and all that may be done with them."""

import contextlib
import io
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import connection, transaction

from core.backoff import Backoff
from jobs import operations
from jobs.domain.filters import Filters
from jobs.errors import JobsError
from jobs.models import Job, Worker
from tests import farm
from tests.histories import checking, recording
from tests.histories.history import FOREVER, Call, History
from tests.histories.recording import Recorder
from tests.schedules.actors import Stage, Task
from tests.schedules.scene import Kept

SOON: Final = Backoff(first_s=0.001, cap_s=0.001)
_DUE: Final = "SELECT job_id FROM jobs_live WHERE lease_secret IS NULL AND run_at <= now() ORDER BY job_id"


class Jobs(Kept):
    """`held` is run by the first worker, whose lease has run out and may still be renewed; `waiting` is due, `late` in
    an hour; `stale` may begin no more; `ended` has failed."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        operations.create_kind(operations.Kind(name="work", queue="work", backoff=SOON))
        self.first, self.second, self.third = (farm.worker(name) for name in ("first", "second", "third"))
        self.boss = User.objects.create_superuser("boss")
        ended = operations.submit("work", None).pk
        farm.fail(self.first, farm.claim_one(self.first), retryable=False)
        held = operations.submit("work", None, priority=3).pk
        self.job = farm.claim_one(self.first)
        operations.heartbeat(self.first, self.job.id, self.job.lease)
        farm.expire_lease(self.job)
        now, hour = farm.now(), timedelta(hours=1)
        stale = operations.submit("work", None, expires_at=now + hour).pk
        self.ada = User.objects.create_user("ada")
        self.waiting = operations.submit("work", None, owner=self.ada).pk
        self.late = operations.submit("work", None, run_at=now + 24 * hour).pk
        farm.alter(Job.objects.filter(pk=stale), expires_at=now - hour)
        self.bulk = operations.bulk.create("cancel", by=self.boss, filters=Filters(status="pending"))  # type: ignore[arg-type]
        operations.bulk.begin(self.bulk.pk, by=self.boss)
        self.ended = ended
        self.known = [ended, held, stale, self.waiting, self.late]
        self.keep()

    def actions(self) -> dict[str, Task]:
        """What an actor may do, by its name; each names jobs that others act on too."""
        first, second, job = self.first, self.second, self.job
        return {
            "submit": lambda: self._recorded("submit", lambda: [operations.submit("work", None).pk]),
            "submit many": lambda: self._recorded("submit", lambda: operations.submit_many([farm.new_job()] * 2)),
            "submit in a transaction": lambda: self._recorded("submit", _submitted_in_a_transaction),
            "wake": lambda: operations.run_now(self.late, by=None),
            "tidy": operations.tend_lanes,
            "claim": lambda: self._claim(second, "request", limit=1),
            "claim two": lambda: self._claim(self.third, "other", limit=2),
            "finish": lambda: self._finish("success", claims=0),
            "finish with claim": lambda: self._finish("success", claims=1),
            "fail": lambda: self._finish("failed", claims=0),
            "release": lambda: self._named("release", lambda: operations.release(first, job.id, job.lease)),
            "heartbeat": lambda: self._named("report", lambda: operations.heartbeat(first, job.id, job.lease)),
            "output": lambda: self._named(
                "report", lambda: operations.write_output(first, job.id, job.lease, seq=0, text="piece")
            ),
            "cancel held": lambda: self._cancel(job.id),
            "cancel waiting": lambda: self._cancel(self.waiting),
            "retry": lambda: self._recorded("submit", lambda: [operations.retry(self.ended, by=self.boss).pk]),
            "expire": operations.expire,
            "janitor": operations.sweep,
            "priority": lambda: operations.change_priority(self.waiting, 5, by=None),
            "bulk cancel": self._cancel_in_bulk,
            "ceiling": lambda: operations.set_ceiling("work", 2),
            "pause": lambda: self._marked("pause", lambda: operations.pause("work")),
            "resume": lambda: self._marked("resume", lambda: operations.resume("work")),
            "pause the owner": lambda: operations.pause_owner(self.ada, by=None),
            "resume the owner": lambda: operations.resume_owner(self.ada, by=None),
            "a lease runs out": lambda: farm.expire_lease(job, is_confirmed=False),
            **self.breaks(),
        }

    def begin(self) -> None:
        """Begin a history, with what the rows say that happened before."""
        self.written = io.StringIO()
        self.recorder = Recorder(self.written, process="actor", refuses=lambda error: isinstance(error, JobsError))
        for job_id in self.known:
            self._note("submit", job_id)
        self._note("claim", self.job.id, worker=self.first.pk, fence=1)
        self._note("report", self.job.id, worker=self.first.pk, fence=1)
        with self.recorder.call("claim", worker=self.first.pk) as call:
            call.answer(self.ended, 1)
        self._note("finish", self.ended, worker=self.first.pk, fence=1, word="failed")

    def faults(self) -> list[str]:
        """Rows that contradict each other, jobs that are due and nobody gets, calls that cannot
        all have been answered so."""
        faults = [f"job {job_id} {fault}" for job_id, fault in operations.broken_jobs(most=9)]
        self._run_the_rest()
        with connection.cursor() as cursor:
            cursor.execute(_DUE)
            faults += [f"job {job_id} is due, and nobody gets it" for (job_id,) in cursor.fetchall()]
        faults += [f"afterwards job {job_id} {fault}" for job_id, fault in operations.broken_jobs(most=9)]
        states = {job.pk: job.status for job in Job.objects.all()}
        calls = list(recording.parsed(self.written.getvalue().splitlines(keepends=True)))
        return faults + checking.faults(History(calls=calls, states=states)) + list(_claimed_while_paused(calls))

    def _run_the_rest(self) -> None:
        """Let everybody who may have it take what is due."""
        self._marked("resume", lambda: operations.resume("work"))
        operations.resume_owner(self.ada, by=None)
        operations.set_ceiling("work", None)
        operations.sweep()
        for worker in (self.third, self.second, self.first):
            while claimed := self._claim(worker, f"rest {self.runs}", limit=9):
                done = [operations.Finished(job_id=job.id, lease=job.lease, outcome="success") for job in claimed]
                with self.recorder.call("finish", worker=worker.pk) as call:
                    _answer(call, done, operations.finish(worker, done))

    def _note(
        self, name: str, job_id: int, *, worker: int | None = None, fence: int | None = None, word: str = ""
    ) -> None:
        with self.recorder.call(name, worker=worker) as call:
            call.answer(job_id, fence, word)

    def _recorded(self, name: str, act: Callable[[], Sequence[Any]]) -> None:
        with self.recorder.call(name) as call:
            for job_id in act():
                call.answer(job_id)

    def _marked(self, name: str, act: Task) -> None:
        with self.recorder.call(name) as call:
            act()
            call.answer(None)

    def _named(self, name: str, act: Task) -> None:
        with self.recorder.call(name, worker=self.first.pk, parts=[(self.job.id, 1)]):
            act()

    def _cancel(self, job_id: int) -> None:
        with self.recorder.call("cancel", parts=[(job_id, None)]) as call:
            canceled = operations.cancel(job_id, by=None)
            call.answer(job_id, None, canceled.verdict, status=canceled.status.value)

    def _cancel_in_bulk(self) -> None:
        """Of which jobs it canceled nobody knows."""
        with contextlib.suppress(_Unheard), self.recorder.call("cancel", parts=[(one, None) for one in self.known]):
            operations.bulk.step(bulk_id=self.bulk.pk)
            raise _Unheard

    def _claim(self, worker: Worker, request: str, *, limit: int) -> list[operations.ClaimedJob]:
        with self.recorder.call("claim", worker=worker.pk) as call:
            claimed = operations.claim(worker, limit=limit, request_id=request)
            call.note_claimed((job.id, job.lease.fence) for job in claimed)
        return claimed

    def _finish(self, outcome: Any, *, claims: int) -> None:
        done = [operations.Finished(job_id=self.job.id, lease=self.job.lease, outcome=outcome)]
        with self.recorder.call("finish", worker=self.first.pk) as call:
            answers, claimed = operations.finish_and_claim(self.first, done, limit=claims)
            _answer(call, done, answers)
            call.note_claimed((job.id, job.lease.fence) for job in claimed)


def _answer(call: recording.Open, done: Sequence[operations.Finished], answers: Sequence[Any]) -> None:
    for entry, answer in zip(done, answers, strict=True):
        is_lost = isinstance(answer, JobsError)
        call.answer(entry.job_id, entry.lease.fence, getattr(answer, "code", answer), is_refusal=is_lost)


def _submitted_in_a_transaction() -> list[int]:
    """Into the lane that the held job was taken from, where nothing else waits."""
    with transaction.atomic():
        return [operations.submit("work", None, priority=3).pk]


def _claimed_while_paused(calls: Sequence[Call]) -> Iterator[str]:
    """Claims of what nobody had held before that lie between the end of a pause and the first resume after it; one
    whose answer was lost began when it was made first."""
    unheard = [call for call in calls if call.outcome == "unknown"]
    for pause in (call for call in calls if call.call == "pause" and call.outcome == "ok"):
        resumes = [call.began for call in calls if call.call == "resume" and call.over > pause.began]
        for claim in (call for call in calls if call.call == "claim" and call.outcome == "ok"):
            began = min([claim.began, *(call.began for call in unheard if call.worker == claim.worker)])
            if claim.job is not None and pause.over < began and claim.over < min(resumes, default=FOREVER):
                yield f"the queue was paused, and then: {claim}"


class _Unheard(Exception):
    pass
