"""Counting what happened, for the charts: from the jobs' own times, a few seconds behind, and each job once.

Nothing counts on a job's way. Every minute is counted anew as a whole until nothing can be added to it any more, so a
roll-up that is killed, runs twice or meets a transaction that was open for long counts nothing double and leaves
nothing out (docs/adr/0033).
"""

import time
from datetime import datetime, timedelta

from django.db import transaction

from jobs.domain import rollups
from jobs.queries import bulks
from jobs.queries import rollups as queries
from live import operations as live
from scheduling.operations import action

TOPIC = "rollups"
_MINUTE = timedelta(seconds=rollups.MINUTE_S)
# A farm that was never counted, or not for long: so far back, in chunks of an hour, for some seconds a run.
_FIRST = timedelta(days=8)
_CHUNK = timedelta(hours=1)
BUDGET_S = 5.0


@action(timeout=60, idempotent=True, own_writes=True)
def roll_up() -> int:
    """Bring the rollups up to date, forget old ones, and announce it; how many rows of minutes changed."""
    changed = count(queries.moments())
    queries.forget()
    bulks.forget()
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


def _settle(moments: queries.Moments) -> tuple[int, bool]:
    """Count an hour of what nothing can be added to, once; whether that was all of it."""
    end = rollups.floored(moments.horizon, step_s=rollups.MINUTE_S)
    with transaction.atomic():
        watermark = queries.lock_watermark(settled_until=_beginning(moments.now))
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
    with transaction.atomic():
        watermark = queries.lock_watermark(settled_until=_beginning(moments.now))
        counted = rollups.floored(watermark.counted_at, step_s=rollups.MINUTE_S)
        since = max(watermark.settled_until, counted - _MINUTE, moments.now - _CHUNK)
        until = rollups.floored(moments.now, step_s=rollups.MINUTE_S) + _MINUTE
        since = rollups.floored(since, step_s=rollups.MINUTE_S)
        changed = queries.count_minutes(since=since, until=until) if since < until else 0
        watermark.counted_at = max(watermark.counted_at, moments.now)
        watermark.save(update_fields=["counted_at"])
        _announce(changed)
    return changed


def _beginning(now: datetime) -> datetime:
    return rollups.floored(now - _FIRST, step_s=rollups.HOUR_S)


def _announce(changed: int) -> None:
    if changed:
        live.touch(TOPIC)
