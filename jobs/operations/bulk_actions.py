"""What a bulk does to a batch of jobs: what became of each, and what is needed to take it back."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User

from jobs.domain.bulks import FITS, BulkAction
from jobs.domain.states import ENDED, Status, Verdict
from jobs.errors import JobsError
from jobs.models import Bulk, BulkItem, Job
from jobs.operations import announcing, ending, rights, submitting
from jobs.queries import bulks
from ratelimits.operations import RateLimitsError

_TOO_LATE = "came too late"


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What came of a batch: how many came to what, and of those that changed what they had before."""

    came_to: Counter[str] = field(default_factory=Counter)
    changed: int = 0
    items: dict[int, dict[str, Any]] = field(default_factory=dict)

    def note(self, result: str, *, count: int = 1, changed: bool = False) -> None:
        """So many jobs came to this."""
        if count:
            self.came_to[result] += count
            self.changed += count if changed else 0


def do(bulk: Bulk, job_ids: Sequence[int], *, now: datetime) -> Outcome:
    """Apply the bulk's action to these jobs, in the caller's transaction, as far as their status still allows it."""
    match BulkAction(bulk.action):
        case BulkAction.CANCEL:
            return _cancel(job_ids, by=bulk.by)
        case BulkAction.RETRY:
            return _retry(job_ids, by=bulk.by)
        case BulkAction.QUEUE:
            return _change(job_ids, "queue", bulk.value)
        case BulkAction.PRIORITY:
            return _change(job_ids, "priority", int(bulk.value))
        case _:
            return _run_now(job_ids, now=now)


def undo(of: Bulk, items: Sequence[BulkItem], *, by: User, now: datetime) -> Outcome:
    """Take back what `of` did to these jobs, where that is still true to do (jobs.domain.bulks)."""
    match BulkAction(of.action):
        case BulkAction.CANCEL:
            return _submit_again(items, now=now)
        case BulkAction.RETRY:
            return _cancel_new(items, by=by)
        case BulkAction.QUEUE:
            return _restore(items, "queue", lambda was: was["queue"])
        case BulkAction.PRIORITY:
            return _restore(items, "priority", lambda was: was["priority"])
        case _:
            return _restore(items, "run_at", lambda was: datetime.fromisoformat(was["run_at"]))


def _cancel(job_ids: Sequence[int], *, by: User) -> Outcome:
    outcome = Outcome()
    jobs = bulks.lock_jobs(job_ids, states=FITS[BulkAction.CANCEL])
    verdicts = ending.cancel_locked(jobs, by=by)
    for job_id, verdict in verdicts.items():
        outcome.note(verdict.value.replace("_", " "), changed=True)
        if verdict is not Verdict.WHILE_RUNNING:
            outcome.items[job_id] = {}
    outcome.note(_TOO_LATE, count=len(job_ids) - len(jobs))
    return outcome


def _retry(job_ids: Sequence[int], *, by: User) -> Outcome:
    outcome = Outcome()
    for job in bulks.with_bodies(job_ids, states=ENDED):
        made = _again(job, outcome, by=by)
        if made is not None:
            outcome.items[job.pk] = {"made": made.pk}
    return outcome


def _again(
    job: Job, outcome: Outcome, *, by: User | None = None, run_at: datetime | None = None
) -> Job | None:
    """The job once more, within the rights of `by`; None, and a note of why, where it was refused."""
    try:
        if by is not None:
            rights.check_retry(job, by=by)
        made = submitting.submit_again(job, by=None, run_at=run_at)
    except (JobsError, RateLimitsError) as refusal:
        outcome.note(refusal.message)
        return None
    outcome.note("submitted once more", changed=True)
    return made


def _change(job_ids: Sequence[int], column: str, value: Any) -> Outcome:
    outcome = Outcome()
    waiting = bulks.lock_jobs(job_ids, states=FITS[BulkAction.QUEUE])
    jobs = [job for job in waiting if getattr(job, column) != value]
    outcome.items = {job.pk: _was(job, column, value) for job in jobs}
    outcome.note("changed", count=_write(jobs, {column: value}), changed=True)
    outcome.note("were so already", count=len(waiting) - len(jobs))
    outcome.note(_TOO_LATE, count=len(job_ids) - len(waiting))
    return outcome


def _run_now(job_ids: Sequence[int], *, now: datetime) -> Outcome:
    outcome = Outcome()
    waiting = bulks.lock_jobs(job_ids, states=FITS[BulkAction.RUN_NOW])
    later = [job for job in waiting if job.run_at > now]
    jobs = [job for job in later if job.limit_until is None or job.limit_until <= now]
    outcome.items = {job.pk: _was(job, "run_at", now) for job in jobs}
    outcome.note("made due", count=_write(jobs, {"run_at": now}), changed=True)
    outcome.note("were due already", count=len(waiting) - len(later))
    outcome.note("wait for their limit", count=len(later) - len(jobs))
    outcome.note(_TOO_LATE, count=len(job_ids) - len(waiting))
    return outcome


def _was(job: Job, column: str, now_is: Any) -> dict[str, Any]:
    return {"fence": job.fence, column: _json(getattr(job, column)), "set_to": _json(now_is)}


def _write(jobs: Sequence[Job], columns: Mapping[str, Any]) -> int:
    if not jobs:
        return 0
    changed = bulks.change_waiting([job.pk for job in jobs], **columns)
    announcing.changed([job.pk for job in jobs])
    for queue in {columns.get("queue", job.queue) for job in jobs}:
        announcing.available(queue)
    return changed


def _submit_again(items: Iterable[BulkItem], *, now: datetime) -> Outcome:
    outcome = Outcome()
    for job in bulks.with_bodies([item.job_id for item in items], states=[Status.CANCELED]):
        _again(job, outcome, run_at=job.run_at if job.run_at > now + timedelta(seconds=1) else None)
    return outcome


def _cancel_new(items: Sequence[BulkItem], *, by: User) -> Outcome:
    outcome = Outcome()
    jobs = bulks.lock_jobs([item.was["made"] for item in items], states=[Status.PENDING])
    untouched = [job for job in jobs if job.fence == 0]
    outcome.note("canceled before start", count=len(ending.cancel_locked(untouched, by=by)), changed=True)
    outcome.note("had been taken by a worker", count=len(items) - len(untouched))
    return outcome


def _restore(items: Sequence[BulkItem], column: str, old: Callable[[dict[str, Any]], Any]) -> Outcome:
    outcome = Outcome()
    was = {item.job_id: item.was for item in items}
    jobs = [
        job
        for job in bulks.lock_jobs(was, states=[Status.PENDING])
        if job.fence == was[job.pk]["fence"] and _json(getattr(job, column)) == was[job.pk]["set_to"]
    ]
    by_value: dict[Any, list[Job]] = {}
    for job in jobs:
        by_value.setdefault(old(was[job.pk]), []).append(job)
    for value, same in by_value.items():
        outcome.note("put back", count=_write(same, {column: value}), changed=True)
    outcome.note("did not wait any more, or were changed since", count=len(items) - len(jobs))
    return outcome


def _json(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
