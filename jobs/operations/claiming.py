"""Claiming: home queues first, and from other queues only when idle."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from jobs.domain.leases import Lease
from jobs.errors import QueueNotAllowed, UnknownQueue
from jobs.models import Worker
from jobs.operations import announcing, polling, preparing, repeating, taking
from jobs.queries import keys, moves
from observing import numbers
from postgres import transactions

ANY_QUEUE = "*"
MOST = 1000  # jobs in one claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A job as its worker gets it."""

    id: int
    kind: str
    queue: str
    payload: Any
    attempt: int
    max_attempts: int
    retry_when_lost: bool
    lease: Lease
    lease_expires_at: datetime
    traceparent: str | None = None


def claim(
    worker: Worker,
    *,
    queues: Sequence[str] | None = None,
    limit: int = 1,
    request_id: str | None = None,
) -> list[Claimed]:
    """Lease up to `limit` pending jobs (1,000 at most) to `worker`; empty only if there are none for it.

    Its home queues are served in their order, or `queues` in theirs. Only if they have nothing and the worker holds
    no job does it steal from the other queues it is allowed (DESIGN section 5), and of its claims at one moment one.

    A lease is unconfirmed until the first call that names it: not confirmed within one heartbeat interval, it goes back
    and was no attempt.

    `request_id` is a name of the worker's choice for this one call: the same call again, since its answer was lost, is
    given what it claimed the first time, as far as that still stands and is unconfirmed. Raises UnknownQueue for a
    queue that nobody named yet, QueueNotAllowed for one this worker may not take from.
    """
    home, steals = _allowed(worker, queues)
    request = repeating.claim_key(worker, request_id)
    if request is not None and (before := claimed_before(worker, request)):
        return before
    polling.note(worker, queues)
    while True:
        taken, discarded = _whole_round(worker, home, steals, limit=min(limit, MOST), request=request)
        count(taken)
        if taken or not discarded:
            return taken


@transactions.retried
def claimed_before(worker: Worker, request: UUID) -> list[Claimed]:
    """What an earlier sending of this call claimed and no call has named since."""
    rows = moves.claimed_before(worker, request)
    payloads = preparing.dispatched_again(worker, rows) if rows else {}
    return [_claimed(row, payloads[row.id]) for row in rows if row.id in payloads]


def claim_once(worker: Worker, *, limit: int, request: UUID | None = None) -> tuple[list[Claimed], int]:
    """The first round of `claim`, in the caller's transaction: what it took, and how many it had to leave out.

    After the commit `count` them; if some were left out and nothing was taken, there may be more: call `claim`.
    """
    home, steals = _allowed(worker, None)
    polling.note(worker, None)
    return _round(worker, home, steals, limit=min(limit, MOST), request=request)


def _round(
    worker: Worker, home: Sequence[str], steals: Sequence[str], *, limit: int, request: UUID | None
) -> tuple[list[Claimed], int]:
    """Jobs for this worker, and how many more were taken that nobody is to have now (`preparing`).

    In the caller's transaction, which ends with the round: each of those has ended, or waits for another attempt,
    whatever the next round meets. None follows one that took something: if it broke, the worker would not know.
    """
    rows = taking.take(worker, queues=home, limit=limit, only_if_idle=False, request=request)
    if not rows and steals and keys.begin_to_steal(worker):
        others = _spelled_out(steals, home)
        rows = taking.take(worker, queues=others, limit=limit, only_if_idle=True, request=request)
    if not rows:
        return [], 0
    announcing.changed([row.id for row in rows], "workers")
    payloads = preparing.dispatched(worker, rows)
    taken = [_claimed(row, payloads[row.id]) for row in rows if row.id in payloads]
    return taken, len(rows) - len(taken)


_whole_round = transactions.retried(_round)


def count(taken: Sequence[Claimed]) -> None:
    """Add them to the numbers of this process."""
    for queue, jobs in Counter(claimed.queue for claimed in taken).items():
        numbers.CLAIMED.labels(queue).inc(jobs)


def _allowed(worker: Worker, requested: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """Where to look, and where to steal: each queue once, for the statement's work grows with every mention."""
    home, steals = _once(worker.queues), _once(worker.steals)
    if requested is None:
        return home, steals
    requested = _once(requested)
    _check(requested, home, steals)
    return [queue for queue in requested if queue in home], [
        queue for queue in requested if queue not in home
    ]


def _once(queues: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(queues))


def _check(requested: Sequence[str], home: Sequence[str], steals: Sequence[str]) -> None:
    known = keys.known_queues(queue for queue in requested if "\x00" not in queue)
    for queue in requested:
        if queue not in known:
            raise UnknownQueue(queue=queue)
        if queue not in home and queue not in steals and ANY_QUEUE not in steals:
            raise QueueNotAllowed(queue=queue)


def _spelled_out(steals: Sequence[str], home: Sequence[str]) -> list[str]:
    if ANY_QUEUE not in steals:
        return [queue for queue in steals if queue not in home]
    named = [queue for queue in steals if queue != ANY_QUEUE and queue not in home]
    return named + [queue for queue in keys.all_queues() if queue not in home and queue not in named]


def _claimed(row: moves.Row, payload: Any) -> Claimed:
    return Claimed(
        id=row.id,
        kind=row.kind,
        queue=row.queue,
        payload=payload,
        attempt=row.attempt,
        max_attempts=row.max_attempts,
        retry_when_lost=row.retry_when_lost,
        lease=Lease(fence=row.fence, secret=row.lease_secret),
        lease_expires_at=row.lease_expires_at,
        traceparent=row.traceparent,
    )
