"""What is done about jobs as time passes: by the janitor (leases, expiry, lanes) and crons (retention, files)."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final

from django.conf import settings
from django.core.files.storage import default_storage

from core.values import duration
from jobs import registry
from jobs.domain import reasons
from jobs.domain.files import UNUSED_FOR_S
from jobs.domain.states import AttemptOutcome, Status
from jobs.operations import edges, hooks, lanes, waits
from jobs.operations.content import delete_file, delete_later
from jobs.operations.finish import decide, settle
from jobs.operations.set_aside import ASIDE
from jobs.queries import flows, inputs, lanes as lane_queries, moves, reads, reports, waits as wait_queries
from observing import fields
from postgres import clock, transactions
from scheduling import operations as scheduling
from scheduling.operations import action

log = logging.getLogger(__name__)
FOLDER: Final = "jobs"
# A file is stored before its row is written, and an upload may take a while.
AGED_TURNS: Final = 50  # batches of one round
OLD_ENOUGH: Final = timedelta(hours=1)
_NAMES_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What one round did, and in how many seconds the next thing is due (None: nothing in sight).

    `taken_back`: leases that ran out, confirmed or not, and runs that took too long. `expired`: waits that
    did, for a first start or for what a job is suspended for.
    """

    taken_back: int
    expired: int
    next_in_s: float | None


def sweep(*, between: Callable[[], None] = lambda: None) -> Sweep:
    """One round of the janitor. Any number of janitors may run at once; each row is handled by one of them.

    `between` is called after each batch, outside of its transaction: a round that has much to do takes long. A job that
    cannot be ended is put aside with its reason for a minute (`set_aside`), and the rest goes on.
    """
    return Sweep(
        taken_back=ASIDE.for_each(moves.lock_overdue, _take_back, between=between),
        expired=ASIDE.for_each(moves.lock_expired, _expire, between=between)
        + ASIDE.for_each(wait_queries.lock_timed_out, waits.time_out, between=between),
        next_in_s=next_due_s(),
    )


def tend_lanes(*, between: Callable[[], None] = lambda: None) -> int:
    """Move the marks of lanes to what waits first in them, and jobs to the lanes that they belong in by now: of their
    owners where queues keep owners apart, of owners that are paused, of what has waited for long; how many lanes were
    put to sleep. Every few seconds; without it claims read more, and find the same. What a crash left waiting in a flow
    may start, too. What fails of it keeps the rest from nothing, and is a line in the log."""
    failures, asleep = scheduling.Failures(), list[int]()
    with failures.aside("steps of flows"):
        ASIDE.for_each(flows.lock_ended, _go_on, between=between)
    for signal in wait_queries.new_signals():
        with failures.aside("signals by a key"):
            waits.reach(signal)
    with failures.aside("queues that keep owners apart"):
        lane_queries.keep_apart()
    with failures.aside("owners that are paused no more"):
        hooks.available(*lane_queries.keep_paused())
    with failures.aside("shares of what waits for later"):
        lane_queries.keep_served()
    for name, chore in registry.CHORES.items():
        with failures.aside(name):
            chore()
    for lock in (lane_queries.lock_crowded, lane_queries.lock_of_paused, _aged_in_turns()):
        with failures.aside("jobs that change lanes"):
            ASIDE.for_each(lock, lanes.move, between=between)
    with failures.aside("lanes"):
        asleep.append(lanes.tidy_all(between=between))
    return sum(asleep)


def _aged_in_turns() -> Callable[[int, Sequence[int]], Sequence[Any]]:
    """Locks what has waited for long, so many times: the first of each lane; the rest has the next round."""
    turns = iter(range(AGED_TURNS))
    return lambda limit, but_for: [] if next(turns, None) is None else lane_queries.lock_aged(limit, but_for)


def next_due_s() -> float | None:
    """In how many seconds `sweep` has something to do, below zero when it has; None: nothing is in sight.

    Tables that have outgrown their statistics are counted anew, so that every session plans its statements again.
    """
    row = reads.next_wake(but_for=ASIDE.ids())
    moves.analyze(row.outgrown)
    seconds: float | None = row.seconds
    return seconds


@action(idempotent=True, own_writes=True)
def expire() -> int:
    """End jobs that waited longer than they may; how many.

    The janitor's `sweep` does it on the second. This is for farms whose janitor is away: see docs/adr/0016.
    """
    return ASIDE.for_each(moves.lock_expired, _expire)


@action(timeout=3600, idempotent=True)
def delete_lost_files() -> int:
    """`delete_orphaned_files`, once a day: each name in the storage is read for that; how many those were."""
    return len(delete_orphaned_files(now=clock.now()))


def delete_orphaned_files(*, now: datetime, limit: int = 100_000) -> list[str]:
    """Delete result and input files that are older than an hour and that no row names, up to `limit`; their names.

    Reads every name in the storage's folder of jobs. Nothing here is undone by a rollback: call it outside of one.
    """
    names, deleted = _files(FOLDER), list[str]()
    while len(deleted) < limit and (batch := list(islice(names, _NAMES_AT_ONCE))):
        unknown = [name for name in reports.unknown_files(batch) if _is_old(name, now=now)]
        deleted += [name for name in unknown[: limit - len(deleted)] if delete_file(name) is None]
    return deleted


def _go_on(rows: Sequence[Any]) -> None:
    ids = [row.id for row in rows]
    while ids:
        ids = edges.go_on(ids)


def _take_back(rows: Sequence[Any]) -> None:
    settlements = [_overdue(row) for row in rows]
    settle(settlements, rows=rows)
    for row, settlement in zip(rows, settlements, strict=True):
        with fields.about(job_id=row.id, kind=row.kind, worker=row.worker_name):
            log.info("Took back a running job: %s", settlement.error)
    for worker_id in {row.worker_id for row in rows}:
        hooks.stopped(worker_id)


def _overdue(row: Any) -> moves.Settlement:
    if not row.confirmed:
        error = f"no call named its lease: its worker died, or got no answer ({row.unconfirmed + 1} in a row)"
        return decide(row, AttemptOutcome.UNCONFIRMED, retryable=row.retry_when_lost, error=error)
    if row.silent:
        error = f"lost: it last called {duration(row.last_seen_ago_s)} ago"
        return decide(row, AttemptOutcome.LOST, retryable=row.retry_when_lost, error=error)
    error = "the run took longer than allowed"
    return decide(row, AttemptOutcome.TIMED_OUT, retryable=row.retry_on_timeout, error=error)


def _expire(rows: Sequence[Any]) -> None:
    errors = {row.id: reasons.NOT_STARTED for row in rows}
    edges.end_waiting(rows, to=Status.TIMED_OUT, errors=errors)
    for row in rows:
        with fields.about(job_id=row.id, kind=row.kind):
            log.info("Timed out a job that nobody had begun")


@transactions.retried
def forget(limit: int, skip: int) -> int:
    """Delete jobs that ended longer ago than RETENTION_DAYS, after the oldest so many; how many. One that has not ended
    is never deleted.

    The files go after the rows, by a function of the same transaction: none is left over, whoever is killed."""
    rows = moves.retain(age_s=settings.JOBFARM["RETENTION_DAYS"] * 86400.0, limit=limit, skip=skip)
    delete_later([name for row in rows for name in row.files])
    return len(rows)


@transactions.retried
def forget_uploads(limit: int, skip: int) -> int:
    """Delete input files that no job uses, but within 24 hours of their upload, after the oldest so many; how many that
    were at first. Those that a job came to use while they were being locked stay."""
    unused = inputs.lock_unused(age_s=UNUSED_FOR_S, limit=skip + limit)[skip:]
    if unused:
        delete_later(inputs.delete_unused(unused))
    return len(unused)


def _files(folder: str) -> Iterator[str]:
    if (names_below := getattr(default_storage, "names_below", None)) is not None:
        yield from names_below(folder)
        return
    try:
        folders, files = default_storage.listdir(folder)
    except FileNotFoundError:
        return
    for name in sorted(files):
        yield f"{folder}/{name}"
    for name in sorted(folders):
        yield from _files(f"{folder}/{name}")


def _is_old(name: str, *, now: datetime) -> bool:
    try:
        return default_storage.get_modified_time(name) < now - OLD_ENOUGH
    except FileNotFoundError:
        return False
    except Exception as error:
        log.warning("the file %s, which no row names, cannot be looked at: %s", name, error)
        return False
