"""Live queries that span all apps: what an operator watches."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from django.contrib.auth.models import User
from django.urls import reverse

from jobfarm import demonstration, health, presence
from jobfarm.findings import Level, Remembered
from jobs.domain import charts
from jobs.domain.rollups import PERIODS
from jobs.operations.rollup import TOPIC
from jobs.operations.workers import PROCESSES_TOPIC
from jobs.queries import gauges, pages, reads, rollups
from live import html
from live.registry import StateQuery, StateRead, Viewer, live_query
from postgres import clock
from ratelimits import operations as ratelimits, queries as limits
from scheduling import operations as scheduling
from scheduling.queries import pages as scheduled
from webhooks import operations as webhooks

OPERATOR, PUBLIC = "operator", "public"
_public_query = partial(live_query, audiences=(PUBLIC,), anonymous="always")
EXAMINED_EVERY_S: Final = 3.0  # however many watch: 20 ms of some thirty short statements
SURROUNDINGS_EVERY_S: Final = 10.0  # a bucket that is away, or a pooler that swallows LISTEN, takes seconds
PUBLIC_EVERY_S: Final = 5.0  # however many visitors come, some four statements
NEXT_FIRINGS: Final = 6
NEARLY_EMPTY: Final = 0.2  # of what a limit holds when it is full
MOST_GAUGES: Final = 6


def _operators_query(
    name: str, *, right: str, every_s: float, topics: Sequence[str]
) -> Callable[[StateRead], StateQuery]:
    """Declare a part of the overview: for operators who also have the right that the page of it asks for, since keys of
    limits are people's names and addresses."""

    def may_see(viewer: Viewer, **_: Any) -> str | None:
        user = viewer.user
        return OPERATOR if isinstance(user, User) and reads.is_operator(user) and user.has_perm(right) else None

    return live_query(
        f"overview-{name}", topics=lambda: topics, template=f"jobfarm/live/{name}.html", at_most_every_s=every_s,
        audiences=(OPERATOR,), may_see=may_see,
    )  # fmt: skip


_around: Final = Remembered(lambda: list(health.examine_surroundings()), for_s=SURROUNDINGS_EVERY_S)
warnings: Final = Remembered(
    lambda: [finding for finding in health.examine(surroundings=_around) if finding.level > Level.FINE],
    for_s=EXAMINED_EVERY_S,
)


@_operators_query("warnings", right="jobs.view_job", every_s=2.0, topics=[TOPIC, "workers", "queues", PROCESSES_TOPIC])
def overview_warnings() -> Mapping[str, Any]:
    """What `manage.py doctor` warns of, the worst first; apart from it what a farm that starts still waits for."""
    findings = warnings()
    bad = [finding for finding in findings if finding.level > Level.STARTING]
    return {
        "findings": sorted(bad, key=lambda finding: -finding.level),
        "starting": [finding for finding in findings if finding.level is Level.STARTING],
    }


@_operators_query("processes", right="jobs.view_job", every_s=2.0, topics=[PROCESSES_TOPIC])
def overview_processes() -> Mapping[str, Any]:
    return {"processes": presence.rows()}


@_operators_query("crons", right="scheduling.view_scheduledfunction", every_s=5.0, topics=["crons"])
def overview_crons() -> Mapping[str, Any]:
    """Those that fire next, of added apps and of people; the farm's own fire all the time."""
    due = scheduled.crons().filter(retired_at__isnull=True, paused_at__isnull=True, next_at__isnull=False)
    rows = [cron for cron in due.order_by("next_at", "name") if not scheduling.is_internal(cron)]
    return {"crons": rows[:NEXT_FIRINGS]}


@_operators_query("limits", right="ratelimits.view_bucket", every_s=5.0, topics=[ratelimits.TOPIC, TOPIC])
def overview_limits() -> Mapping[str, Any]:
    """Of the limits and keys most used, those that are nearly empty, the emptiest first."""
    used, _ = limits.gauges(limit=100)
    nearly_empty = sorted((g for g in used if g.share < NEARLY_EMPTY), key=lambda gauge: gauge.share)
    return {"gauges": nearly_empty[:MOST_GAUGES]}


@_operators_query(
    "webhooks", right="webhooks.view_delivery", every_s=5.0, topics=["deliveries", "refusals", "webhook-secrets"]
)
def overview_webhooks() -> Mapping[str, Any]:
    """Deliveries that wait for a person, and requests that were refused."""
    inbox = webhooks.health()
    return {"inbox": inbox, "refused": sum(inbox.refused.values())}


def _sees_public(_: Viewer, **__: Any) -> str | None:
    return PUBLIC if demonstration.is_shown() else None


def _public_numbers() -> Mapping[str, Any]:
    """Sums over all queues, of this moment and of the last hour. `success`: of those that ended and were not canceled,
    how many succeeded; `bars`: of each minute what ended, as a path of SVG (jobs.domain.charts)."""
    summary = gauges.summary(viewer=pages.EVERYBODY)
    history = rollups.history(PERIODS["hour"], now=clock.now())
    total = history.total
    success = f"{round(total.success / total.judged * 100)} %" if total.judged else "–"
    [bars] = charts.stack([[point.ended for point in history.points]], []).layers
    now = {"running": summary.running.text, "workers": summary.workers.alive}
    return now | {"ended": total.ended, "success": success, "bars": bars}


public_numbers: Final = Remembered(_public_numbers, for_s=PUBLIC_EVERY_S)


@_public_query(
    "front", topics=lambda: [TOPIC, "jobs", "workers"], template="jobfarm/live/front.html",
    at_most_every_s=PUBLIC_EVERY_S, may_see=_sees_public,
)  # fmt: skip
def front_numbers() -> Mapping[str, Any]:
    """The farm as a whole, in numbers that name no job, queue, kind or person."""
    return {"numbers": public_numbers()}


visited: Final = Remembered(demonstration.start_if_due, for_s=PUBLIC_EVERY_S)
is_painted_here: Final = Remembered(demonstration.is_served, for_s=PUBLIC_EVERY_S)


@_public_query(
    "front-demonstration", topics=lambda: [demonstration.TOPIC, "workers"],
    template="jobfarm/live/demonstration.html", at_most_every_s=1.0, may_see=_sees_public,
)  # fmt: skip
def front_demonstration() -> Mapping[str, Any]:
    """Which picture the front page shows, and whether somebody paints another."""
    job = demonstration.current()
    picture = html.wrapper("front-picture", {"job_id": job.pk}, audience=PUBLIC) if job else ""
    return {"picture": picture, "is_served": is_painted_here()}


@_public_query(
    "front-picture", topics=lambda job_id: [f"job:{job_id}"], rights_topics=lambda job_id: [f"share:{job_id}"],
    template="jobfarm/live/front_picture.html", at_most_every_s=0.25,
)  # fmt: skip
def front_picture(*, job_id: int) -> Mapping[str, Any] | None:
    """The front page's job: its progress, and the picture as it is painted."""
    job = demonstration.current()
    if job is None or job.pk != job_id:
        return None
    file = demonstration.picture(job)
    path = reverse("jobs:shared_file", args=[demonstration.TOKEN, file.name]) if file else ""
    return {"job": job, "file": file, "path": path}


@front_picture.may_see
def _(_: Viewer, *, job_id: int) -> str | None:
    job = demonstration.current() if demonstration.is_shown() else None
    return PUBLIC if job is not None and job.pk == job_id else None
