"""Taking jobs behind the watermarks of this process, and by a full scan where that finds nothing (docs/adr/0036)."""

import functools
import time
from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from django.db import transaction

from jobs.domain.watermarks import Scan, Taken, Watermarks
from jobs.models import Worker
from jobs.queries import moves, reads
from jobs.queries.reads import Claimable, Interest

WATERMARKS = Watermarks()
_TAKING_S: Final = 0.00005  # a job in a claim of a hundred; what is left of the time was spent on scanning


def take(
    worker: Worker, *, queues: Sequence[str], limit: int, only_if_idle: bool, request: UUID | None = None
) -> list[moves.Row]:
    """Lease up to `limit` jobs of these queues, in the caller's transaction; a row each.

    A queue that lost its last free slots to others at this very moment is full: the rest is taken without it.
    """
    while queues:
        rows = _scan(worker, queues, limit=limit, only_if_idle=only_if_idle, request=request)
        got = [row for row in rows if row.id is not None]
        if got or not rows:
            return got
        full = {row.picked_from for row in rows}
        queues = [queue for queue in queues if queue not in full]
    return []


def claimable(interests: Sequence[tuple[Interest, int]], *, horizon_s: float) -> list[Claimable]:
    """For each (interest, how many at most): what could be claimed now, and when more is due within the horizon.

    As a claim, it does not read piles of dead entries more than a tenth of the time; what it overlooks meanwhile, a
    sweep finds.
    """
    began_s = time.monotonic()
    within = WATERMARKS.preview({interest.owner_id for interest, _ in interests}, now_s=began_s)
    answers = reads.claimable(interests, horizon_s=horizon_s, within=within)
    if not within:
        WATERMARKS.spent(time.monotonic() - began_s)
    return answers


def forget(queues: Iterable[str]) -> None:
    """Some of what waits in these queues became due long ago: after the commit, the next claim makes a full scan."""
    if behind := frozenset(queues):
        transaction.on_commit(functools.partial(WATERMARKS.forget, behind))


def _scan(
    worker: Worker, queues: Sequence[str], *, limit: int, only_if_idle: bool, request: UUID | None
) -> list[moves.Row]:
    """Behind the watermarks; then a full scan for what is still missing, unless that would hold up what was found."""
    rows: list[moves.Row] = []
    scan: Scan | None = WATERMARKS.scan(queues, now_s=time.monotonic(), owner_id=worker.owner_id)
    after: Scan | None = None
    while scan is not None:
        began_s = time.monotonic()
        still, if_idle = limit - len(rows), only_if_idle and not rows
        more = moves.claim(
            worker, queues=queues, limit=still, only_if_idle=if_idle, scan=scan, request=request
        )
        WATERMARKS.lasted(scan, max(0.0, time.monotonic() - began_s - len(more) * _TAKING_S))
        _note(scan, more)
        rows += more
        if len(rows) >= limit or scan.is_whole:
            break
        scan = after = WATERMARKS.full_scan(
            queues, now_s=time.monotonic(), owner_id=worker.owner_id, after=after, has_some=bool(rows)
        )
    return rows


def _note(scan: Scan, rows: Sequence[moves.Row]) -> None:
    # The last of each will do: of a hundred jobs that is one.
    last = {
        (row.queue, row.priority, row.owner_id, row.group_id): row.run_at
        for row in rows
        if row.id is not None and row.is_open
    }
    taken = [Taken(queue, priority, run_at, *whose) for (queue, priority, *whose), run_at in last.items()]
    transaction.on_commit(functools.partial(WATERMARKS.took, scan, taken))
