"""Look-ups that several operations share."""

from typing import cast

from django.contrib.auth.models import User

from core.backoff import Backoff
from jobs import kinds
from jobs.domain.kinds import Kind, LimitKey
from jobs.errors import NotFound, UnknownKind
from jobs.models import Job
from jobs.queries import keys, reads

BIGGEST_ID = 2**63 - 1


def kind(name: str) -> Kind:
    """The kind called `name`: the one declared in code, or the row that a person made. Raises UnknownKind."""
    declared = kinds.DECLARED.get(name)
    if declared is not None:
        return declared
    row = keys.kind(name) if "\x00" not in name else None
    if row is None:
        raise UnknownKind(kind=name)
    backoff = Backoff(first_s=row.backoff_first_s, base=row.backoff_base, cap_s=row.backoff_cap_s)
    return Kind(
        name=row.name, queue=row.queue, max_attempts=row.max_attempts, backoff=backoff, timeout_s=row.timeout_s,
        expires_s=row.expires_s, retry_when_lost=row.retry_when_lost, retry_on_timeout=row.retry_on_timeout,
        priority=row.priority,
        limit=row.limit, limit_count=row.limit_count, limit_key=cast("LimitKey", row.limit_key),
    )  # fmt: skip


def backoff(kind_name: str) -> Backoff:
    """How long a failed job of this kind waits; the default where the kind is gone, or broken, by now."""
    try:
        return kind(kind_name).backoff
    except (UnknownKind, ValueError):  # a row that was edited into nonsense must not keep a run from ending
        return Backoff()


def job(job_id: int, *, by: User | None, lock: bool = False) -> Job:
    """The job, if `by` may see it (None: the system itself), locked if asked. Raises NotFound."""
    jobs = Job.objects.all() if by is None else reads.visible_to(by)
    if not 0 < job_id <= BIGGEST_ID:
        raise NotFound
    row = (
        (jobs.select_for_update(of=("self",)) if lock else jobs.select_related("body"))
        .filter(pk=job_id)
        .first()
    )
    if row is None:
        raise NotFound
    return row
