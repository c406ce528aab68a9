"""Telling the app that declared a kind of each move of its jobs, in the transaction of the move.

The move stands whatever the app's function does: an app's fault must not cost a worker its result, nor stop the
janitor. What the function wrote before it failed is rolled back alone (docs/adr/0026).
"""

import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from django.db import transaction

from jobs import kinds
from jobs.domain.hooks import Move, Moved
from jobs.domain.states import Status
from jobs.queries import moves as statements
from jobs.queries.moves import Settlement
from postgres import transactions
from scheduling import context

log = logging.getLogger(__name__)


def claimed(rows: Iterable[Any], *, worker_name: str) -> None:
    """These jobs are in progress now, with this worker."""
    _notify(
        Move(
            job_id=row.id, kind=row.kind, attempt=row.fence, worker_name=worker_name,
            from_=Status.PENDING, to=Status.IN_PROGRESS,
        )
        for row in rows if row.kind in kinds.HOOKS
    )  # fmt: skip


def settled(moved: Iterable[Any], *, settlements: Iterable[Settlement], locked: dict[int, Any]) -> None:
    """The attempts of these jobs ended: `moved` are the rows as they stand now, `locked` as they were."""
    rows = [row for row in moved if locked[row.id].kind in kinds.HOOKS]
    if rows:
        by_job = {settlement.job_id: settlement for settlement in settlements}
        _notify(_ended(row, by_job[row.id], locked[row.id]) for row in rows)


def ended_waiting(jobs: Iterable[Any], *, to: Status, error: str) -> None:
    """These jobs ended while they waited. They have an id, a kind and the number of their last confirmed claim."""
    _notify(
        Move(
            job_id=job.id,
            kind=job.kind,
            attempt=job.confirmed_fence,
            from_=Status.PENDING,
            to=to,
            error=error,
        )
        for job in jobs
        if job.kind in kinds.HOOKS
    )


def tried_again(job: Any, *, retry_of: int) -> None:
    """This new job is another try of the ended one."""
    if job.kind in kinds.HOOKS:
        reserved = job.run_at if job.limit_until else None
        common: dict[str, Any] = {"job_id": job.id, "kind": job.kind, "attempt": 0}
        _notify([Move(**common, from_=None, to=Status.PENDING, run_at=reserved, retry_of=retry_of)])


def resynced(moves: Iterable[Move]) -> None:
    """Report the status of these jobs, without a move having happened."""
    _notify(move for move in moves if move.kind in kinds.HOOKS)


@contextmanager
def on_behalf_of(job_id: int) -> Iterator[None]:
    """Remember the functions that are scheduled in the block as made by this job; its page shows them.

    A hook that gets one move is in such a block already. One that gets many at once, and schedules something for
    each, puts each into one of its own.
    """
    with context.noting() as made:
        yield
    if made:
        statements.keep_offspring(job_id, function_ids=made)


def _ended(row: Any, settlement: Settlement, was: Any) -> Move:
    status = Status(row.status)
    return Move(
        job_id=row.id,
        kind=was.kind,
        attempt=was.fence,
        worker_name=was.worker_name or "",
        from_=Status.IN_PROGRESS,
        to=status,
        outcome=settlement.outcome,
        result=None if settlement.result is None else json.loads(settlement.result),
        error=settlement.error or "",
        run_at=row.run_at if status is Status.PENDING else None,
    )


def _notify(moves: Iterable[Move]) -> None:
    by_kind: dict[str, list[Move]] = defaultdict(list)
    for move in moves:
        by_kind[move.kind].append(move)
    for kind, mine in by_kind.items():
        hook = kinds.HOOKS[kind].moved
        if hook is not None:
            _notify_hook(hook, mine)


def _notify_hook(hook: Moved, moves: Sequence[Move]) -> None:
    # One call for all of them; if that fails, one for each, so that one job's fault is not its neighbours'.
    if not _call_hook(hook, moves) and len(moves) > 1:
        for move in moves:
            _call_hook(hook, [move])


def _call_hook(hook: Moved, moves: Sequence[Move]) -> bool:
    try:
        alone = on_behalf_of(moves[0].job_id) if len(moves) == 1 else nullcontext()
        with transaction.atomic(), alone:
            hook(moves)
    except Exception as error:
        if transactions.collided(error):  # the whole transaction is to run again, and nothing of it is lost
            raise
        jobs = ", ".join(str(move.job_id) for move in moves)
        log.exception("the hook of the kind %s failed for the moves of %s, which stand", moves[0].kind, jobs)
        return False
    return True
