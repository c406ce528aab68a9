"""Counting for the charts, from the jobs' own times, and the usage of owners (docs/adr/0033, 0057).

Nothing counts on a job's way. Every minute is counted anew as a whole until nothing can be added to it any more, so a
roll-up that is killed, runs twice or meets a transaction that was open for long counts nothing double and leaves
nothing out (docs/adr/0033).
"""

import logging
import time
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from django.db import transaction

from jobs import registry
from jobs.domain import rollups
from jobs.models import ALL_JOBS
from jobs.operations import hooks
from jobs.queries import rollups as queries, usage
from live import operations as live
from postgres import transactions
from scheduling import operations as crons
from scheduling.operations import action

TOPIC = "rollups"
_MINUTE = timedelta(seconds=rollups.MINUTE_S)
# A farm that was never counted: so far back at most, in chunks of an hour, for some seconds a run.
_FIRST = timedelta(days=8)
_CHUNK = timedelta(hours=1)
BUDGET_S = 5.0
SETTLED_WITHIN_S: Final = 60.0  # what was counted is over for good by then, mostly: the next count settles it
_SHARE: Final = 50  # counting what waits takes this part of the time at most, however much waits
log = logging.getLogger(__name__)


class _Counting:
    """Until when this process counts no waiting jobs again, by its own clock."""

    not_before_s = 0.0


@action(timeout=60, idempotent=True, own_writes=True)
def roll_up() -> int:
    """Bring the rollups up to date, and announce it; how many rows of minutes changed."""
    changed = count(queries.moments())
    if changed:
        crons.hasten(hooks.COUNT_JOBS, *registry.COUNTING_CRONS, within_s=SETTLED_WITHIN_S)
    return changed


def count(moments: queries.Moments) -> int:
    """Settle the minutes that are over for good, then count the latest ones as far as they are visible.

    `moments` were read before and apart, see there. Any number of processes may do so at once. How many rows of minutes
    changed.
    """
    until = time.monotonic() + BUDGET_S
    changed = 0
    while True:
        more, is_settled = _settle(moments)
        changed += more
        if is_settled or time.monotonic() > until:
            break
    return changed + _count_recent(moments)


@action(timeout=60, idempotent=True, own_writes=True)
def measure_usage() -> None:
    """Fold what changed since the last time, and count waiting jobs. The first time ever all is counted anew."""
    if not usage.was_recounted():
        recount_usage()
    failures = crons.Failures()
    began_s = time.monotonic()
    if began_s >= _Counting.not_before_s:
        with failures.aside("waiting jobs"):
            _count_waiting()
        _Counting.not_before_s = began_s + _SHARE * (time.monotonic() - began_s)
    _fold()
    failures.raise_any()


@action(timeout=3600, idempotent=True, own_writes=True)
def recount_usage() -> int:
    """Count anew what all jobs keep, whatever the triggers counted. For how many owners (the farm is one) that was
    something else: 0, or somebody wrote past the triggers, which is a line in the log. Reads all jobs."""
    is_first = not usage.was_recounted()
    wrong = _recount()
    for row in wrong if not is_first else ():
        log.warning(
            "the usage of %s was counted as %d bytes of output, %d files of %d bytes, and is %d, %d, %d",
            "the farm" if row.owner_id == ALL_JOBS else f"owner {row.owner_id}",
            *(row.counted_output_bytes, row.counted_files, row.counted_file_bytes),
            *(row.output_bytes, row.files, row.file_bytes),
        )
    return len(wrong)


def _settle(moments: queries.Moments) -> tuple[int, bool]:
    """Count an hour of what nothing can be added to, once; whether that was all of it."""
    end = rollups.floored(moments.horizon, step_s=rollups.MINUTE_S)
    with transaction.atomic(), transactions.waiting_at_most():
        watermark = queries.lock_watermark(beginning=partial(_beginning, moments))
        until = min(end, watermark.settled_until + _CHUNK)
        if until <= watermark.settled_until:
            return 0, True
        changed = queries.count_minutes(since=watermark.settled_until, until=until)
        watermark.settled_until = until
        watermark.save(update_fields=["settled_until"])
        _announce(changed)
    return changed, until == end


def _count_recent(moments: queries.Moments) -> int:
    """Count the minutes since the last count, and the one it fell into; some of their jobs may not be visible yet."""
    with transaction.atomic(), transactions.waiting_at_most():
        watermark = queries.lock_watermark(beginning=partial(_beginning, moments))
        counted = rollups.floored(watermark.counted_at, step_s=rollups.MINUTE_S)
        since = max(watermark.settled_until, counted - _MINUTE, moments.now - _CHUNK)
        until = rollups.floored(moments.now, step_s=rollups.MINUTE_S) + _MINUTE
        since = rollups.floored(since, step_s=rollups.MINUTE_S)
        changed = queries.count_minutes(since=since, until=until) if since < until else 0
        watermark.counted_at = max(watermark.counted_at, moments.now)
        watermark.save(update_fields=["counted_at"])
        _announce(changed)
    return changed


def _beginning(moments: queries.Moments) -> datetime:
    """The hour of the first job, or of one that is not visible yet: no empty hours are counted before it."""
    since = moments.now - _FIRST
    first = min(queries.first_event(since=since) or moments.horizon, moments.horizon)
    return rollups.floored(max(since, first), step_s=rollups.HOUR_S)


def _announce(changed: int) -> None:
    if changed:
        live.touch(TOPIC)


@transactions.retried
@transactions.waiting_at_most()
def _fold() -> None:
    usage.lock(ALL_JOBS)
    usage.fold()
    usage.forget_empty()


@transactions.retried
@transactions.waiting_at_most()
def _count_waiting() -> None:
    usage.lock(ALL_JOBS)
    usage.count_waiting()


@transactions.retried
@transactions.waiting_at_most()
def _recount() -> list[usage.Row]:
    _fold()
    return list(usage.recount())
