"""What alerts can watch of a farm (docs/alerts.md). Each reads what others have counted: no reader counts a table."""

import shutil
import socket
from datetime import timedelta
from functools import partial
from typing import Final, Literal

from django.conf import settings

from alerts.domain.conditions import Condition, Measure, Reading, Unit, Unknown
from alerts.registry import register
from jobfarm import presence
from jobs import operations as jobs
from jobs.domain.rollups import MINUTE_S, TEN_MINUTES_S, Period
from jobs.models import ALL_JOBS
from jobs.queries import gauges, reads, rollups
from metering import operations as metering
from metering import queries as budgets
from outbox import operations as outbox
from postgres import clock
from ratelimits import queries as limits
from scheduling import operations as scheduling
from scheduling.queries import pages as scheduled
from webhooks import operations as webhooks

OVERDUE_S: Final = 10.0  # as FarmHasNoJanitor of deploy/prometheus/alerts.yml
BEHIND: Final = timedelta(minutes=2)  # the roll-up counts within seconds of what happens
LONG_S: Final = 7200  # a longer window is added up from steps of ten minutes
LEAST_ENDED: Final = 5  # jobs of which a share means something
MOST_LIMITS: Final = 1000  # limits and keys, those most used first
MOST_BUDGETS: Final = 5000
Target = Literal["queue", "kind"]
_STARTING: Final = Unknown(reason="The farm has just been started.")
_BEHIND: Final = Unknown(reason="The roll-up of jobs is behind.")


def _failed(window_s: int, *, of: Target) -> Reading | Unknown:
    if (ended := _ended(window_s, of=of)) is None:
        return _BEHIND
    return Reading(measures=[Measure(subject=one.name, value=one.failed) for one in ended])


def _share(window_s: int, *, of: Target) -> Reading | Unknown:
    if (ended := _ended(window_s, of=of)) is None:
        return _BEHIND
    enough = [one for one in ended if one.judged >= LEAST_ENDED]
    return Reading(measures=[Measure(subject=one.name, value=100 * one.failed / one.judged) for one in enough])


def _ended(window_s: int, *, of: Target) -> list[rollups.Ended] | None:
    """What ended within the window; None where that is not counted yet."""
    counted_at, now = rollups.last_counted_at()
    if counted_at is None or rollups.is_behind(counted_at, until=now - BEHIND):
        return None
    step_s = MINUTE_S if window_s <= LONG_S else TEN_MINUTES_S
    window = Period(code="", title="", length_s=max(window_s, step_s), step_s=step_s, tick_s=step_s)
    return rollups.ended(window, now=now, of=of)


def _one(value: float) -> Reading:
    return Reading(measures=[Measure(subject="", value=value)])


_targets: tuple[tuple[str, Target], ...] = (("jobs_failed", "queue"), ("kind_failed", "kind"))
for _code, _target in _targets:
    register(Condition(
        code=_code, title=f"Jobs failed or timed out for good, by {_target}", target=_target, unit=Unit.NUMBER,
        is_windowed=True, page=f"jobs:list?status=failed&{_target}=",
    ))(partial(_failed, of=_target))  # fmt: skip
_targets = (("failure_share", "queue"), ("kind_failure_share", "kind"))
for _code, _target in _targets:
    register(Condition(
        code=_code, title=f"Share of jobs that failed or timed out, of at least {LEAST_ENDED}, by {_target}",
        target=_target, unit=Unit.PERCENT, threshold=20, is_windowed=True, page=f"jobs:list?status=failed&{_target}=",
    ))(partial(_share, of=_target))  # fmt: skip


@register(Condition(
    code="jobs_wait", page="jobs:queue",
    title="A job waits, since it was due", target="queue", unit=Unit.SECONDS, threshold=900,
))  # fmt: skip
def _jobs_wait(_: int) -> Reading | Unknown:
    return Reading(measures=[Measure(subject=q, value=age) for q, age in gauges.oldest_waiting_s().items()])


@register(Condition(
    code="no_worker", page="jobs:queue",
    title="Jobs wait that no live worker may take", target="queue", unit=Unit.PRESENCE,
))  # fmt: skip
def _no_worker(_: int) -> Reading | Unknown:
    if presence.is_starting():
        return _STARTING
    waiting = [queue for queue in reads.waiting_queues() if not queue.paused]
    return Reading(measures=[
        Measure(
            subject=queue.name, value=float(not queue.served or queue.out_of_scope or queue.lacking is not None)
        )
        for queue in waiting
    ])  # fmt: skip


@register(Condition(
    code="scheduler_late", page="scheduling:functions",
    title="Scheduled functions are late", unit=Unit.SECONDS, threshold=60,
))  # fmt: skip
def _scheduler_late(_: int) -> Reading | Unknown:
    return _one(scheduling.health().oldest_late_s)


@register(Condition(
    code="cron_missed", page="scheduling:cron",
    title="Nothing ran when a cron was due", target="cron", unit=Unit.PRESENCE, is_windowed=True,
))  # fmt: skip
def _cron_missed(window_s: int) -> Reading | Unknown:
    since = clock.now() - timedelta(seconds=window_s)
    missed = scheduled.firing_crons().filter(missed_at__gte=since).order_by("name")
    return Reading(measures=[Measure(subject=cron.name, value=1) for cron in missed])


@register(Condition(
    code="cron_failed", page="scheduling:cron",
    title="The last firing of a cron failed, or its end is unknown", target="cron",
    unit=Unit.PRESENCE,
))  # fmt: skip
def _cron_failed(_: int) -> Reading | Unknown:
    return Reading(measures=[
        Measure(subject=row.cron_id or "", value=float(row.status in {"failed", "unknown"}))
        for row in scheduled.last_firings()
    ])  # fmt: skip


@register(Condition(
    code="deliveries_dead", page="webhooks:inbox?status=dead",
    title="Webhook deliveries failed for good", unit=Unit.NUMBER,
))  # fmt: skip
def _deliveries_dead(_: int) -> Reading | Unknown:
    return _one(webhooks.health().dead)


@register(Condition(
    code="endpoint_failing", page="outbox:endpoints",
    title="An endpoint of the outbox takes nothing", target="endpoint", unit=Unit.SECONDS,
    threshold=900,
))  # fmt: skip
def _endpoint_failing(_: int) -> Reading | Unknown:
    """How long each fails, from the ten minutes on after which it is said to."""
    now = clock.now()
    return Reading(measures=[
        Measure(subject=one.name, value=(now - one.failing_since).total_seconds())
        for one in outbox.health().failing if one.failing_since
    ])  # fmt: skip


@register(
    Condition(code="cluster_away", page="scheduling:crons", title="No cluster runs", target="role", unit=Unit.PRESENCE)
)
def _cluster_away(_: int) -> Reading | Unknown:
    missing = scheduling.health().missing_roles()
    if missing and presence.is_starting():
        return _STARTING
    return Reading(measures=[Measure(subject=role, value=1) for role in missing])


@register(Condition(code="janitor_away", title="No janitor takes back what dead workers held", unit=Unit.PRESENCE))
def _janitor_away(_: int) -> Reading | Unknown:
    if presence.is_starting():
        return _STARTING
    is_away = presence.counts()["janitor"] < 1 or reads.overdue_s() > OVERDUE_S
    return _one(float(is_away))


@register(
    Condition(code="disk", title="A disk for result files is full", target="host", unit=Unit.PERCENT, threshold=90)
)
def _disk(_: int) -> Reading | Unknown:
    """Of the machine whose cluster reads it: of the others nothing is known meanwhile."""
    if settings.FILES_ORIGIN:
        return Unknown(reason="Result files lie in a bucket.")
    folder = settings.MEDIA_ROOT
    folder.mkdir(parents=True, exist_ok=True)
    usage = shutil.disk_usage(folder)
    value = 100 * (1 - usage.free / usage.total)
    return Reading(measures=[Measure(subject=socket.gethostname(), value=value)], is_complete=False)


@register(Condition(
    code="limit_exhausted", page="ratelimits:list",
    title="Tokens of a rate limit are used up", target="limit", unit=Unit.PERCENT, threshold=95,
))  # fmt: skip
def _limit_exhausted(_: int) -> Reading | Unknown:
    used, total = limits.gauges(limit=MOST_LIMITS)
    return Reading(is_complete=total <= MOST_LIMITS, measures=[
        Measure(subject=f"{one.name} {one.key}".strip(), target=one.name, value=100 * (1 - one.share)) for one in used
    ])  # fmt: skip


@register(Condition(
    code="quota", page="jobs:list",
    title="A quota of all jobs together is used up", target="resource", unit=Unit.PERCENT, threshold=90,
))  # fmt: skip
def _quota(_: int) -> Reading | Unknown:
    return Reading(measures=[
        Measure(subject=one.resource, value=100 * one.used / one.quota) for one in jobs.used(ALL_JOBS) if one.quota
    ])  # fmt: skip


@register(Condition(
    code="budget_used", page="metering:usage",
    title="A budget is used, in its window of this moment", target="budget", unit=Unit.PERCENT,
    threshold=90,
))  # fmt: skip
def _budget_used(_: int) -> Reading | Unknown:
    """What is used and not what is reserved: what jobs are expected to use is given back in part."""
    balances = metering.balances(list(budgets.budgets()[:MOST_BUDGETS]), now=clock.now())
    return Reading(is_complete=len(balances) < MOST_BUDGETS, measures=[
        Measure(subject=one.budget.about, target=one.budget.subject, value=one.used_percent) for one in balances
    ])  # fmt: skip
