"""What a person changes of one job: when it is due and its priority, while it waits, and who sees it by a link."""

import secrets
from collections.abc import Sequence
from typing import Any

from django.contrib.auth.models import User

from core import audit
from jobs import registry
from jobs.domain.states import Status
from jobs.errors import NotWaiting, WaitsBehind, WaitsForBudget, WaitsForLimit, WaitsForSignal
from jobs.models import Job, Share
from jobs.operations import hooks, queues
from jobs.queries import bulks, keys, reads, waits
from live import operations as live
from postgres import clock, transactions


@transactions.retried
def run_now(job_id: int, *, by: User | None) -> Job:
    """Make a job that is due later due now, and return it. One that is due already stays as it is.

    `by` None is the system itself. Raises NotFound (also for a job that `by` may not see), NotAllowed, NotWaiting for
    one that runs or has ended, WaitsForLimit for one whose tokens have not come in, WaitsForBudget, WaitsBehind for one
    that starts after another, WaitsForSignal.
    """
    job = _waiting(job_id, by=by)
    now = clock.now()
    if holder_id := reads.waits_for([job]).get(job.pk):
        raise WaitsBehind(job=holder_id)
    if job.is_behind and (suspended := waits.waiting(job.pk)) is not None:
        raise WaitsForSignal(signal=suspended.signal)
    if job.limit_until is not None and job.limit_until > now:
        raise WaitsForLimit(limit=job.limit_name)
    if job.run_at > now and (hold := registry.hold(job.pk, is_metered=job.is_metered)):
        raise WaitsForBudget(budget=hold.cause)
    if job.run_at > now:
        _write(job, run_at=now)
        audit.record(by, job, "run now")
    return job


@transactions.retried
def change_priority(job_id: int, priority: int, *, by: User | None) -> Job:
    """Give a job that waits this priority, from -100 to 100 (higher goes first), and return it.

    `by` None is the system itself. Raises NotFound (also for a job that `by` may not see), NotAllowed, InvalidValue,
    NotWaiting for one that runs or has ended, PriorityNotAllowed above what `by` may give.
    """
    job = _waiting(job_id, by=by)
    queues.check_priority(priority, kind=job.kind, by=by)
    if job.priority != priority:
        before = job.priority
        _write(job, priority=priority)
        audit.record(by, job, f"priority changed from {before} to {priority}")
    return job


def lock_waiting(job_ids: Sequence[int]) -> list[Job]:
    """Those of these jobs that no worker has, locked until the caller's transaction ends."""
    return bulks.lock_jobs(job_ids, states=[Status.PENDING])


def reroute(jobs: Sequence[Job], *, queue: str) -> None:
    """Move these locked jobs to a queue, in the caller's transaction."""
    keys.make_queues([queue])
    bulks.change_waiting([job.pk for job in jobs], queue=queue)
    hooks.changed([job.pk for job in jobs])
    hooks.available(queue)


@transactions.retried
def share(job_id: int, *, by: User) -> Share:
    """The link that shows this job without a log-in, made at the first call. Raises NotFound, NotAllowed."""
    job = reads.operable(job_id, by=by)
    Share.objects.filter(job_id=job.pk, created_by__is_active=False).delete()  # it shows nothing
    share, is_new = Share.objects.get_or_create(
        job_id=job.pk, defaults={"token": secrets.token_urlsafe(32), "created_by": by}
    )
    if is_new:
        audit.record(by, job, "shared by a link")
    return share


@transactions.retried
def move_link(token: str, job_id: int) -> None:
    """Have a link of the site's own, with this token, show this job from now on, and no other."""
    earlier = Share.objects.filter(token=token)
    moved = [*earlier.values_list("job_id", flat=True), job_id]
    earlier.delete()
    Share.objects.create(job_id=job_id, token=token)
    live.touch(*(f"share:{each}" for each in moved), f"link:{token}")


@transactions.retried
def unshare(job_id: int, *, by: User) -> None:
    """Make the job's link worthless. Raises NotFound, NotAllowed."""
    job = reads.operable(job_id, by=by)
    if Share.objects.filter(job_id=job.pk).delete()[0]:
        audit.record(by, job, "link withdrawn")
    live.touch(f"share:{job.pk}")


def _waiting(job_id: int, *, by: User | None) -> Job:
    """The locked job, for `by` to change. Raises NotFound, NotAllowed, NotWaiting."""
    job = reads.operable(job_id, by=by, lock=True)
    is_late = job.expires_at is not None and job.confirmed_fence == 0 and job.expires_at <= clock.now()
    if job.status != Status.PENDING or is_late:
        raise NotWaiting
    return job


def _write(job: Job, **columns: Any) -> None:
    for name, value in columns.items():
        setattr(job, name, value)
    bulks.change_waiting([job.pk], **columns)
    hooks.changed([job.pk])
    hooks.available(job.queue)
