"""What the janitor does: end what ran past its lease or its time, expire what waited too long, forgive, and forget."""

import logging
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core.files.storage import default_storage
from django.db import transaction

from jobs.domain.states import Outcome
from jobs.operations import announcing, ending, limiting
from jobs.queries import keys, moves, reads

# Rows in one transaction: long enough to be worth it, short enough that nobody waits long for a lock.
BATCH = 200
RETAINED_AT_ONCE = 500
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What one round did, and in how many seconds the next thing is due (None: nothing in sight)."""

    timed_out: int
    expired: int
    forgiven: int
    next_in_s: float | None


def sweep() -> Sweep:
    """One round of the janitor. Any number of janitors may run at once; each row is handled by one of them."""
    return Sweep(
        timed_out=_in_batches(_time_out),
        expired=_in_batches(_expire),
        forgiven=_in_batches(_forgive),
        next_in_s=reads.next_wake_s(),
    )


def retain() -> int:
    """Delete what ended longer ago than RETENTION_DAYS, in batches, with its files; and free slots nobody holds.

    Returns how many jobs were deleted. A job that has not ended is never deleted.
    """
    keys.free_empty_slots()
    return _in_batches(_forget, size=RETAINED_AT_ONCE)


def _in_batches(step: Any, size: int = BATCH) -> int:
    done = 0
    while count := step(size):
        done += count
        if count < size:
            break
    return done


def _time_out(limit: int) -> int:
    with transaction.atomic():
        rows = moves.lock_overdue(limit)
        ending.settle([_overdue(row) for row in rows], rows=rows)
        for worker_id in {row.worker_id for row in rows}:
            announcing.stopped(worker_id)
    return len(rows)


def _overdue(row: Any) -> moves.Settlement:
    if row.silent:
        error = f"{row.worker_name} was not heard of before its lease ran out"
        return ending.judged(row, Outcome.LEASE_EXPIRED, retryable=row.retry_on_timeout, error=error)
    return ending.judged(
        row, Outcome.OVERRAN, retryable=row.retry_on_timeout, error="the run took longer than allowed"
    )


def _expire(limit: int) -> int:
    with transaction.atomic():
        rows = moves.lock_expired(limit)
        if rows:
            limiting.give_back_of_unstarted(rows)
            moves.expire([row.id for row in rows])
            announcing.changed([row.id for row in rows])
    return len(rows)


def _forgive(limit: int) -> int:
    with transaction.atomic():
        rows = moves.forgive(limit)
        for queue in {row.queue for row in rows}:
            announcing.available(queue)
        if rows:
            announcing.changed([row.id for row in rows])
    return len(rows)


def _forget(limit: int) -> int:
    rows = moves.retain(age_s=settings.JOBFARM["RETENTION_DAYS"] * 86400.0, limit=limit)
    for name in [name for row in rows for name in row.files]:
        _delete_file(name)
    return len(rows)


def _delete_file(name: str) -> None:
    try:
        default_storage.delete(name)
    except OSError:
        log.exception("the file %s of a deleted job could not be deleted", name)
