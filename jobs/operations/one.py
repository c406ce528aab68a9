"""What a person changes of one job: when it is due and its priority, while it waits; and who sees it, by a link or by a
view token, with which another site's page shows one job, or the jobs of one tag, for a while."""

import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from django.contrib.auth.models import User

from core import audit
from core.refusal import existing
from jobs import registry
from jobs.domain import records
from jobs.domain.quotas import Quota
from jobs.domain.states import Status
from jobs.errors import (
    InvalidViewToken,
    NotFound,
    NotWaiting,
    WaitsBehind,
    WaitsForBudget,
    WaitsForLimit,
    WaitsForSignal,
)
from jobs.models import Job, Share, ViewToken
from jobs.operations import hooks, queues, quotas
from jobs.operations.workers import hashed
from jobs.queries import bulks, keys, reads, waits
from live import operations as live
from postgres import clock, transactions

PREFIX: Final = "jfv_"
MOST: Final = 1_000  # view tokens of a person that open something


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
        job.run_at = now
        change_waiting([job], run_at=now)
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
        before, job.priority = job.priority, priority
        change_waiting([job], priority=priority)
        audit.record(by, job, f"priority changed from {before} to {priority}")
    return job


def lock_waiting(job_ids: Sequence[int]) -> list[Job]:
    """Those of these jobs that no worker has, locked until the caller's transaction ends."""
    return bulks.lock_jobs(job_ids, states=[Status.PENDING])


def reroute(jobs: Sequence[Job], *, queue: str) -> None:
    """Move these locked jobs to a queue, in the caller's transaction."""
    keys.make_queues([queue])
    change_waiting(jobs, queue=queue)


def change_waiting(jobs: Sequence[Job], **columns: Any) -> int:
    """Change these columns of locked jobs that wait, in the caller's transaction, and announce it; how many."""
    if not jobs:
        return 0
    changed = bulks.change_waiting([job.pk for job in jobs], **columns)
    hooks.changed([job.pk for job in jobs])
    hooks.available(*{columns.get("queue", job.queue) for job in jobs})
    return changed


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


@transactions.retried
def create_view_token(
    *, by: User, expires_in_s: float, job_id: int | None = None, tag: str | None = None
) -> tuple[ViewToken, str]:
    """A token for one job that `by` may share, or for those of a tag: whoever has its key, which is returned beside it
    once, looks at that until then. Raises NotFound, NotAllowed, InvalidValue, QuotaReached."""
    now = clock.now()
    if job_id is not None:
        reads.operable(job_id, by=by)
    if tag is not None:
        records.checked_tags([tag])
    used = ViewToken.objects.filter(by=by, expires_at__gt=now).count()
    quotas.refuse_first([(Quota(resource="view tokens", of="owner", quota=MOST, used=used), 1)])
    key = PREFIX + secrets.token_urlsafe(32)
    expires_at = now + timedelta(seconds=expires_in_s)
    token = ViewToken.objects.create(by=by, key_hash=hashed(key), job_id=job_id, tag=tag, expires_at=expires_at)
    audit.record(by, token, f"{token}, until {expires_at:%Y-%m-%d %H:%M} UTC")
    return token, key


@transactions.retried
def revoke_view_token(token_id: int, *, by: User) -> None:
    """Make a view token of this person's worthless at once, on open streams too. Raises NotFound."""
    token = existing(ViewToken.objects.filter(pk=token_id, by=by).first(), NotFound("There is no such view token."))
    audit.record(by, token, f"{token} revoked")
    token.delete()
    live.touch(f"user:{by.pk}")


def revoke_view_tokens_of(owner: User) -> None:
    """Make all of them worthless, of somebody whose account is another person's now."""
    if ViewToken.objects.filter(by=owner).delete()[0]:
        live.touch(f"user:{owner.pk}")


def view_token(key: str) -> ViewToken:
    """The token with this key, with who made it. Raises InvalidViewToken."""
    tokens = ViewToken.objects.select_related("by").filter(by__is_active=True, expires_at__gt=clock.now())
    return existing(tokens.filter(key_hash=hashed(key)).first(), InvalidViewToken())


def _waiting(job_id: int, *, by: User | None) -> Job:
    """The locked job, for `by` to change. Raises NotFound, NotAllowed, NotWaiting."""
    job = reads.operable(job_id, by=by, lock=True)
    is_late = job.expires_at is not None and job.confirmed_fence == 0 and job.expires_at <= clock.now()
    if job.status != Status.PENDING or is_late:
        raise NotWaiting
    return job
