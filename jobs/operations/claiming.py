"""Claiming: home queues first, and from other queues only when idle."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from jobs.domain.leases import Lease
from jobs.errors import QueueNotAllowed, UnknownQueue
from jobs.models import Worker
from jobs.operations import announcing, preparing
from jobs.queries import keys, moves

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


def claim(worker: Worker, *, queues: Sequence[str] | None = None, limit: int = 1) -> list[Claimed]:
    """Lease up to `limit` pending jobs (1,000 at most) to `worker`; empty only if there are none for it.

    Its home queues are served in their order, or `queues` in theirs. Only if they have nothing and the worker holds
    no job does it steal from the other queues it is allowed (DESIGN section 5). Raises UnknownQueue for a queue that
    nobody named yet, QueueNotAllowed for one this worker may not take from.
    """
    home, steals = _allowed(worker, queues)
    limit = min(limit, MOST)
    while True:
        taken, left_out = _round(worker, home, steals, limit=limit)
        if taken or not left_out:
            return taken


def _round(
    worker: Worker, home: Sequence[str], steals: Sequence[str], *, limit: int
) -> tuple[list[Claimed], int]:
    """Jobs for this worker, and how many more were taken that nobody is to have now (`preparing`).

    In a transaction of its own: each of those has ended, or waits for another attempt, whatever the next round meets.
    No round follows one that took something: if it broke, the worker would not hear of what it holds.
    """
    with transaction.atomic():
        rows = _take(worker, home, limit=limit, only_if_idle=False)
        if not rows and steals:
            rows = _take(worker, _spelled_out(steals, home), limit=limit, only_if_idle=True)
        if not rows:
            return [], 0
        announcing.changed([row.id for row in rows], "workers")
        payloads = preparing.handed_out(worker, rows)
    taken = [_claimed(row, payloads[row.id]) for row in rows if row.id in payloads]
    return taken, len(rows) - len(taken)


def _allowed(worker: Worker, asked: Sequence[str] | None) -> tuple[list[str], list[str]]:
    home, steals = list(worker.queues), list(worker.steals)
    if asked is None:
        return home, steals
    for queue in asked:
        _check(queue, home, steals)
    return [queue for queue in asked if queue in home], [queue for queue in asked if queue not in home]


def _check(queue: str, home: Sequence[str], steals: Sequence[str]) -> None:
    if "\x00" in queue or not keys.known_queues([queue]):
        raise UnknownQueue(queue=queue)
    if queue not in home and queue not in steals and ANY_QUEUE not in steals:
        raise QueueNotAllowed(queue=queue)


def _spelled_out(steals: Sequence[str], home: Sequence[str]) -> list[str]:
    if ANY_QUEUE not in steals:
        return [queue for queue in steals if queue not in home]
    named = [queue for queue in steals if queue != ANY_QUEUE and queue not in home]
    return named + [queue for queue in keys.all_queues() if queue not in home and queue not in named]


def _take(worker: Worker, queues: Sequence[str], *, limit: int, only_if_idle: bool) -> list[moves.Row]:
    # A queue that lost its last free slots to others at this very moment is full: the rest is asked without it.
    while queues:
        rows = moves.claim(worker, queues=queues, limit=limit, only_if_idle=only_if_idle)
        got = [row for row in rows if row.id is not None]
        if got or not rows:
            return got
        full = {row.picked_from for row in rows}
        queues = [queue for queue in queues if queue not in full]
    return []


def _claimed(row: moves.Row, payload: Any) -> Claimed:
    return Claimed(
        id=row.id,
        kind=row.kind,
        queue=row.queue,
        payload=payload,
        attempt=row.claim_no,
        lease=Lease(claim_no=row.claim_no, secret=row.lease_secret),
        lease_expires_at=row.lease_expires_at,
    )
