"""What a bulk action does to the jobs of one batch, and what takes that back."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User

from core.refusal import CancelVerdict, Refusal
from jobs import registry
from jobs.domain.bulks import FITS, BulkAction
from jobs.domain.states import Status
from jobs.errors import ContentNotKept
from jobs.models import Bulk, BulkItem, Job
from jobs.operations import queues
from jobs.operations.finish import cancel_locked
from jobs.operations.one import change_waiting
from jobs.operations.submit import submit_again
from jobs.queries import bulks

_TOO_LATE = "came too late"
_NOT_KEPT = "left out: what they were given is not kept"
RETRIED = "retried before, left out"


@dataclass(slots=True, kw_only=True)
class BatchResult:
    """What came of a batch: how many came to what, and of those that changed what they had before."""

    results: Counter[str] = field(default_factory=Counter)
    changed: int = 0
    items: dict[int, dict[str, Any]] = field(default_factory=dict)

    def note(self, result: str, *, count: int = 1, changed: bool = False) -> None:
        if count:
            self.results[result] += count
            self.changed += count if changed else 0


def do(bulk: Bulk, job_ids: Sequence[int], *, now: datetime) -> BatchResult:
    """Apply the bulk's action to these jobs, in the caller's transaction, as far as their status still allows it."""
    return {
        BulkAction.CANCEL: lambda: _cancel(job_ids, by=bulk.by),
        BulkAction.RETRY: lambda: _retry(job_ids, by=bulk.by),
        BulkAction.QUEUE: lambda: _change(job_ids, "queue", bulk.value),
        BulkAction.PRIORITY: lambda: _change(job_ids, "priority", int(bulk.value)),
        BulkAction.RUN_NOW: lambda: _run_now(job_ids, now=now),
    }[BulkAction(bulk.action)]()


def take_back(of: Bulk, items: Sequence[BulkItem], *, by: User, now: datetime) -> BatchResult:
    """Take back what `of` did to these jobs, where that is still true to do (jobs.domain.bulks), and `by` may act on
    them: who ran the farm when it was done may do so no more."""
    theirs = bulks.acted_on(items, by=by)
    outcome = {
        BulkAction.CANCEL: lambda: _retry([item.job_id for item in theirs], by=None, now=now),
        BulkAction.RETRY: lambda: _cancel_new(theirs, by=by),
        BulkAction.QUEUE: lambda: _restore(theirs, "queue", lambda was: was["queue"]),
        BulkAction.PRIORITY: lambda: _restore(theirs, "priority", lambda was: was["priority"]),
        BulkAction.RUN_NOW: lambda: _restore(theirs, "run_at", lambda was: datetime.fromisoformat(was["run_at"])),
    }[BulkAction(of.action)]()
    outcome.note("are gone, or not yours to change", count=len(items) - len(theirs))
    return outcome


def _cancel(job_ids: Sequence[int], *, by: User) -> BatchResult:
    outcome = BatchResult()
    jobs = bulks.lock_jobs(job_ids, states=FITS[BulkAction.CANCEL])
    verdicts = cancel_locked(jobs, by=by)
    for job_id, verdict in verdicts.items():
        outcome.note(verdict.value.replace("_", " "), changed=True)
        if verdict is not CancelVerdict.WHILE_RUNNING:
            outcome.items[job_id] = {}
    outcome.note(_TOO_LATE, count=len(job_ids) - len(jobs))
    return outcome


def _retry(job_ids: Sequence[int], *, by: User | None, now: datetime | None = None) -> BatchResult:
    """Try these again; with `now` at their own moments, where those lie ahead."""
    outcome = BatchResult()
    jobs = bulks.lock_unretried(job_ids)  # two bulks may have found the same
    outcome.note(RETRIED, count=len(job_ids) - len(jobs))
    for job in jobs:
        is_later = now is not None and job.run_at > now + timedelta(seconds=1)
        if (made := _again(job, outcome, by=by, run_at=job.run_at if is_later else None)) is not None:
            outcome.items[job.pk] = {"made": made.pk}
    return outcome


def _again(job: Job, outcome: BatchResult, *, by: User | None, run_at: datetime | None) -> Job | None:
    """The job once more, within the rights of `by`; None, and a note of why, where it was refused, or came with another
    of its flow."""
    if job.flow_id is not None and not bulks.lock_unretried([job.pk]):
        outcome.note(RETRIED)
        return None
    try:
        if by is not None:
            queues.check_retry(job, by=by)
        made = submit_again(job, by=None, run_at=run_at)
    except Refusal as refusal:
        outcome.note(_NOT_KEPT if isinstance(refusal, ContentNotKept) else refusal.message)
        return None
    outcome.note("retried", changed=True)
    return made


def _change(job_ids: Sequence[int], column: str, value: Any) -> BatchResult:
    outcome = BatchResult()
    waiting = bulks.lock_jobs(job_ids, states=FITS[BulkAction.QUEUE])
    jobs = [job for job in waiting if getattr(job, column) != value]
    outcome.items = {job.pk: _was(job, column, value) for job in jobs}
    outcome.note("changed", count=change_waiting(jobs, **{column: value}), changed=True)
    outcome.note("were so already", count=len(waiting) - len(jobs))
    outcome.note(_TOO_LATE, count=len(job_ids) - len(waiting))
    return outcome


def _run_now(job_ids: Sequence[int], *, now: datetime) -> BatchResult:
    outcome = BatchResult()
    waiting = bulks.lock_jobs(job_ids, states=FITS[BulkAction.RUN_NOW])
    later = [job for job in waiting if job.run_at > now]
    free = [job for job in later if not (job.is_behind or (job.limit_until is not None and job.limit_until > now))]
    jobs = [job for job in free if not registry.hold(job.pk, is_metered=job.is_metered)]
    outcome.items = {job.pk: _was(job, "run_at", now) for job in jobs}
    outcome.note("run now", count=change_waiting(jobs, run_at=now), changed=True)
    outcome.note("were due already", count=len(waiting) - len(later))
    outcome.note("wait for their limit, budget, signal or another job", count=len(later) - len(jobs))
    outcome.note(_TOO_LATE, count=len(job_ids) - len(waiting))
    return outcome


def _was(job: Job, column: str, now_is: Any) -> dict[str, Any]:
    return {"fence": job.fence, column: _json(getattr(job, column)), "set_to": _json(now_is)}


def _cancel_new(items: Sequence[BulkItem], *, by: User) -> BatchResult:
    outcome = BatchResult()
    made = [item.was["made"] for item in items]
    untouched = [job for job in bulks.lock_jobs(made, states=[Status.PENDING]) if job.fence == 0]
    outcome.note("canceled before start", count=len(cancel_locked(untouched, by=by)), changed=True)
    outcome.note("had been taken by a worker", count=len(items) - len(untouched))
    return outcome


def _restore(items: Sequence[BulkItem], column: str, old: Callable[[dict[str, Any]], Any]) -> BatchResult:
    outcome = BatchResult()
    was = {item.job_id: item.was for item in items}
    jobs = [
        job
        for job in bulks.lock_jobs(was, states=[Status.PENDING])
        if job.fence == was[job.pk]["fence"] and _json(getattr(job, column)) == was[job.pk]["set_to"]
    ]
    for value in {old(was[job.pk]) for job in jobs}:
        same = [job for job in jobs if old(was[job.pk]) == value]
        outcome.note("put back", count=change_waiting(same, **{column: value}), changed=True)
    outcome.note("did not wait any more, or were changed since", count=len(items) - len(jobs))
    return outcome


def _json(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
