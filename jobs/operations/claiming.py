"""Claiming: home queues first, and from other queues only when idle."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobs.domain.leases import Lease
from jobs.errors import QueueNotAllowed, UnknownQueue
from jobs.models import Worker
from jobs.operations import announcing, preparing, taking
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
    lease: Lease
    lease_expires_at: datetime
    traceparent: str | None = None


def claim(worker: Worker, *, queues: Sequence[str] | None = None, limit: int = 1) -> list[Claimed]:
    """Lease up to `limit` pending jobs (1,000 at most) to `worker`; empty only if there are none for it.

    Its home queues are served in their order, or `queues` in theirs. Only if they have nothing and the worker holds
    no job does it steal from the other queues it is allowed (DESIGN section 5), and of its claims at one moment one.
    Raises UnknownQueue for a queue that nobody named yet, QueueNotAllowed for one this worker may not take from.
    """
    home, steals = _allowed(worker, queues)
    while True:
        taken, left_out = _whole_round(worker, home, steals, limit=min(limit, MOST))
        count(taken)
        if taken or not left_out:
            return taken


def claim_once(worker: Worker, *, limit: int) -> tuple[list[Claimed], int]:
    """The first round of `claim`, in the caller's transaction: what it took, and how many it had to leave out.

    After the commit `count` them; if some were left out and nothing was taken, there may be more: ask `claim`.
    """
    home, steals = _allowed(worker, None)
    return _round(worker, home, steals, limit=min(limit, MOST))


def _round(
    worker: Worker, home: Sequence[str], steals: Sequence[str], *, limit: int
) -> tuple[list[Claimed], int]:
    """Jobs for this worker, and how many more were taken that nobody is to have now (`preparing`).

    In the caller's transaction, which ends with the round: each of those has ended, or waits for another attempt,
    whatever the next round meets. None follows one that took something: if it broke, the worker would not hear of that.
    """
    rows = taking.take(worker, queues=home, limit=limit, only_if_idle=False)
    if not rows and steals and keys.begin_to_steal(worker):
        rows = taking.take(worker, queues=_spelled_out(steals, home), limit=limit, only_if_idle=True)
    if not rows:
        return [], 0
    announcing.changed([row.id for row in rows], "workers")
    payloads = preparing.handed_out(worker, rows)
    taken = [_claimed(row, payloads[row.id]) for row in rows if row.id in payloads]
    return taken, len(rows) - len(taken)


_whole_round = transactions.retried(_round)


def count(taken: Sequence[Claimed]) -> None:
    """Add them to the numbers of this process."""
    for queue, jobs in Counter(claimed.queue for claimed in taken).items():
        numbers.CLAIMED.labels(queue).inc(jobs)


def _allowed(worker: Worker, asked: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """Where to look, and where to steal: each queue once, for the statement's work grows with every mention."""
    home, steals = _once(worker.queues), _once(worker.steals)
    if asked is None:
        return home, steals
    asked = _once(asked)
    _check(asked, home, steals)
    return [queue for queue in asked if queue in home], [queue for queue in asked if queue not in home]


def _once(queues: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(queues))


def _check(asked: Sequence[str], home: Sequence[str], steals: Sequence[str]) -> None:
    known = keys.known_queues(queue for queue in asked if "\x00" not in queue)
    for queue in asked:
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
        attempt=row.claim_no,
        lease=Lease(claim_no=row.claim_no, secret=row.lease_secret),
        lease_expires_at=row.lease_expires_at,
        traceparent=row.traceparent,
    )
