"""What alerts can watch of a farm (docs/alerts.md). Each reads what others have counted: no reader counts a table."""

import shutil
import socket
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final, Literal

from django.conf import settings

from alerts.domain.rules import Condition, Measure, Reading, Unit, Unknown
from alerts.registry import register
from jobfarm import database_health, health, job_health, message_health, scheduler_health
from jobfarm.findings import Area, Rule
from jobs.domain.rollups import MINUTE_S, TEN_MINUTES_S, Period
from jobs.queries import rollups
from metering import operations as metering, queries as budgets
from postgres import clock
from ratelimits import queries as limits
from scheduling.queries import pages as scheduled

BEHIND: Final = timedelta(minutes=2)  # the roll-up counts within seconds of what happens
LONG_S: Final = 7200  # a longer window is added up from steps of ten minutes
FAILURE_SHARE: Final = 20  # percent
FULL_DISK: Final = 90  # percent
LEAST_ENDED: Final = 5  # jobs of which a share means something
MOST_LIMITS: Final = 1000  # limits and keys, those most used first
MOST_BUDGETS: Final = 5000
Target = Literal["queue", "kind"]


def _failed(window_s: int, *, of: Target, is_share: bool) -> Reading | Unknown:
    if (ended := _ended(window_s, of=of)) is None:
        return Unknown(reason="The roll-up of jobs is behind.")
    if not is_share:
        return Reading(measures=[Measure(subject=one.name, value=one.failed) for one in ended])
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


_targets: tuple[tuple[Target, str], ...] = (("queue", "jobs"), ("kind", "kind"))
for _target, _name in _targets:
    register(Condition(
        code=f"{_name}_failed", title=f"Jobs failed or timed out for good, by {_target}", target=_target,
        unit=Unit.NUMBER, is_windowed=True, page=f"jobs:list?status=failed&{_target}=",
    ))(partial(_failed, of=_target, is_share=False))  # fmt: skip
    register(Condition(
        code="failure_share" if _target == "queue" else "kind_failure_share",
        title=f"Share of jobs that failed or timed out, of at least {LEAST_ENDED}, by {_target}", target=_target,
        unit=Unit.PERCENT, threshold=FAILURE_SHARE, is_windowed=True, page=f"jobs:list?status=failed&{_target}=",
    ))(partial(_failed, of=_target, is_share=True))  # fmt: skip

AREAS: Final[Sequence[Area[Any]]] = (
    job_health.waiting, job_health.queues, scheduler_health.scheduler, message_health.inbox, message_health.events,
    health.janitor, job_health.quotas, database_health.snapshots,
)  # fmt: skip
for _area in AREAS:
    _area.register()


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


# What a process says of itself, what only Prometheus can know, and what is a number of a window of time.
RULES: Final = (
    Rule(
        "FarmIsDown", 'absent(up{job="jobfarm"} == 1)', "No node of the farm answers Prometheus",
        severity="critical", lasts="1m",
    ),
    Rule(
        "NodeIsDown", 'up{job="jobfarm"} == 0', "The node {{ $labels.instance }} does not answer Prometheus", lasts="5m"
    ),
    Rule(
        "FarmHasNoDatabase", "max(jobfarm_database_up) < 1", "No node of the farm reaches the database",
        severity="critical", lasts="1m",
    ),
    *(rule for area in AREAS for rule in area.rules()),
    Rule(
        "JobsFail",
        'sum by (queue) (rate(jobfarm_jobs_ended_total{outcome=~"failed|timed_out"}[15m])) '
        '/ sum by (queue) (rate(jobfarm_jobs_ended_total{outcome!="canceled"}[15m])) > ' + f"{FAILURE_SHARE / 100}",
        "More than a fifth of the jobs of {{ $labels.queue }} fail", lasts="15m",
    ),
    Rule(
        "DiskIsNearlyFull",
        f"min by (instance, disk) (jobfarm_disk_free_bytes / jobfarm_disk_bytes) < {1 - FULL_DISK / 100:g}",
        "The disk of {{ $labels.disk }} at {{ $labels.instance }} has less than a tenth left",
        severity="critical", lasts="10m",
    ),
    Rule(
        "NodeHasNoConnectionLeft", "rate(jobfarm_pool_errors_total[5m]) > 0",
        "Requests at {{ $labels.instance }} get no connection to the database",
    ),
    Rule(
        "NodeAnswersErrors", 'sum by (instance) (rate(jobfarm_http_requests_total{status=~"5.."}[5m])) > 0.1',
        "{{ $labels.instance }} answers requests with errors of its own", lasts="5m",
    ),
)  # fmt: skip
