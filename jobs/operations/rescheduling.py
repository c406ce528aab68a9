"""Changing when a waiting job may start."""

from datetime import datetime

from django.contrib.auth.models import User

from core import audit
from jobs.domain.states import Status
from jobs.errors import NotAllowed, NotWaiting, WaitsForLimit
from jobs.models import Job
from jobs.operations import announcing, lookups
from jobs.queries import bulks, reads
from postgres import clock, transactions


@transactions.retried
def run_now(job_id: int, *, by: User | None) -> Job:
    """Make a job that is due later due now, and return it; one that is due already stays as it is.

    `by` None is the system itself. Raises NotFound (also for a job that `by` may not see), NotAllowed, NotWaiting for
    one that runs or has ended, WaitsForLimit for one whose tokens have not come in.
    """
    job = lookups.job(job_id, by=by, lock=True)
    if by is not None and not reads.may_operate(by, job):
        raise NotAllowed
    if job.status != Status.PENDING:
        raise NotWaiting
    now = clock.now()
    if job.limit_until is not None and job.limit_until > now:
        raise WaitsForLimit(limit=job.limit_name)
    if job.run_at > now:
        _make_due(job, now=now)
        audit.record(by, job, "made due")
    return job


def _make_due(job: Job, *, now: datetime) -> None:
    job.run_at = now
    bulks.change_waiting([job.pk], run_at=now)
    announcing.changed([job.pk])
    announcing.available(job.queue)
