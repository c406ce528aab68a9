"""Counting days of usage from the jobs' own times, and what keeps budgets true when something failed.

Nothing counts seconds on a job's way. What ended is added to its day once nothing can be added to that moment any more
(the horizon of docs/adr/0033), together with the watermark: a roll-up that is killed or runs
twice counts nothing double.
"""

import time
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction

from jobs import operations as jobs
from live import operations as live
from metering import queries
from metering.models import Budget, Settlement, Watermark
from postgres import statements, transactions
from scheduling import operations as crons
from scheduling.operations import action

TOPIC: Final = "usage"
COUNT_USAGE: Final = "count usage"  # the cron
# What could still be added to when it was last looked at, and what a run had no time left for.
COUNTED_WITHIN_S: Final = 60.0
_FIRST: Final = timedelta(days=31)  # a farm that was never counted: so far back at most
_CHUNK: Final = timedelta(hours=6)  # of what ended, in one transaction
BUDGET_S: Final = 5.0  # for chunks, in one run
_AT_ONCE: Final = 500  # jobs that are settled afterwards, or budgets that are folded, in one transaction
_MOST_BATCHES: Final = 100  # in one run
_READINGS: Final = 5000  # looked at in one transaction: some ten milliseconds
# How far the order of ids of attempts may differ from that of their times, as in jobs.queries.rollups.
_DISORDER: Final = timedelta(minutes=1)
MOST_ROWS: Final = 1000  # of a person in a day, from which on models are counted as one


@action(timeout=60, idempotent=True, own_writes=True)
def roll_up() -> int:
    """Bring days of usage up to date, fold settlements into the windows of budgets, and settle what was left over; how
    many rows of days changed. What of it fails is put aside, and the rest is done all the same."""
    failures = crons.Failures()
    failures.in_batches(_settle_left_over, name="a job to settle", size=_AT_ONCE, most=_MOST_BATCHES)
    failures.in_batches(_fold, name="a budget to fold", size=_AT_ONCE, most=_MOST_BATCHES)
    changed = 0
    with failures.aside("days"):
        changed = _count_days()
    failures.raise_any()
    return changed


@action(timeout=600, idempotent=True, own_writes=True)
def forget() -> None:
    """Delete settlements of budgets, and readings of jobs, that are deleted."""
    Settlement.objects.exclude(budget_id__in=Budget.objects.values("pk")).delete()
    last: dict[str, int] = {"job_id": 0, "fence": 0}
    while rows := statements.load("metering", "forget_readings").run(last | {"limit": _READINGS}):
        last = rows[0]._asdict()


def _settle_left_over(limit: int, skip: int) -> int:
    """Settle jobs that ended while the meter failed, so that no reservation outlives its job; how many jobs."""
    left = statements.load("metering", "left_over").run({"limit": limit, "skip": skip})
    if left:
        queries.settle([row.job_id for row in left])
    return len(left)


@transactions.retried
def _fold(limit: int, skip: int) -> int:
    """Fold the settlements of so many budgets that have any, in the order of their ids; how many budgets."""
    named = Settlement.objects.values("budget_id").distinct()
    rows = Budget.objects.filter(pk__in=named).select_for_update().order_by("pk")
    if locked := [row.pk for row in rows[skip : skip + limit]]:
        queries.fold(locked)
    return len(locked)


def _count_days() -> int:
    """Count what nothing can be added to any more, for some seconds; how many rows of days changed."""
    until_s = time.monotonic() + BUDGET_S
    moments = jobs.moments()  # before any transaction, see there
    changed, is_done = 0, False
    while not is_done and time.monotonic() < until_s:
        more, is_done = _count(now=moments.now, horizon=moments.horizon)
        changed += more
    if changed or not is_done:
        crons.hasten(COUNT_USAGE, within_s=COUNTED_WITHIN_S)
    return changed


def _count(*, now: datetime, horizon: datetime) -> tuple[int, bool]:
    """Count a part of what nothing can be added to, once; whether that was all of it."""
    with transaction.atomic(), transactions.waiting_at_most():
        if (watermark := Watermark.objects.select_for_update().first()) is None:
            beginning = min(jobs.first_event(since=now - _FIRST) or horizon, horizon)
            Watermark.objects.bulk_create([Watermark(counted_until=beginning)], ignore_conflicts=True)
            watermark = Watermark.objects.select_for_update().get()
        until = min(horizon, watermark.counted_until + _CHUNK)
        if until <= watermark.counted_until:
            return 0, True
        since = watermark.counted_until
        first_attempt = statements.first_id_since("jobs_attempt", "ended_at", since - _DISORDER)
        params = {"since": since, "until": until, "first_attempt": first_attempt, "most_rows": MOST_ROWS}
        [counted] = statements.load("metering", "count_days").run(params)
        watermark.counted_until = until
        watermark.save(update_fields=["counted_until"])
        if counted.changed:
            live.touch(TOPIC)
    return counted.changed, until == horizon
