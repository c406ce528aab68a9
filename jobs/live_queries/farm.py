"""Live queries of queues and workers: what they do, and did. `whose` is as in `lists`."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from jobs.domain import charts
from jobs.domain.filters import Filters
from jobs.domain.rollups import PERIODS, History, Period
from jobs.domain.states import Status
from jobs.live_queries.common import audience_of_list, audience_of_worker, operators, part
from jobs.operations import rollup
from jobs.queries import fleet, gauges, lists, pages, reads, rollups, workers as done
from jobs.queries.pages import EVERYBODY
from postgres import clock

ON_OVERVIEW = 20  # running jobs and workers
ENDED_ON_OVERVIEW = 10
ON_QUEUE = 10  # jobs in progress, and others
JOBS_OF_EACH = 3  # of a worker in a list: 20 workers that hold 100 each made a page of 12,000 elements
JOBS_OF_ONE = 50  # on its own page
TIMELINE_MINUTES = (5, 15, 60)
WORKER_STATUSES: Final = ("live", "drained", "away", "never_connected", "revoked")
WORKER_ORDERS: Final[Mapping[str, Callable[[fleet.WorkerRow], Any]]] = {
    "name": lambda row: row.worker.name.lower(),
    "jobs": lambda row: -row.rates.per_hour,
    "failed": lambda row: -(row.rates.failed or 0),
    "run": lambda row: -(row.rates.run_s or 0),
}
STALE = timedelta(minutes=1)  # the roll-up counts what happened within ten seconds


@part("overview", "jobs", "workers", "queues", seen_by=audience_of_list, every_s=1.0)
def overview(*, whose: int) -> Mapping[str, Any]:
    """What runs at this moment, where the rest waits, who works, and what ended last."""
    queues = fleet.queue_rows(viewer=whose)
    workers = fleet.worker_rows(viewer=whose, limit=ON_OVERVIEW, jobs_each=JOBS_OF_EACH)  # live ones first
    return {
        "queues": queues,
        "workers": workers,
        "running": pages.running(viewer=whose, limit=ON_OVERVIEW),
        "ended": pages.ended(viewer=whose, limit=ENDED_ON_OVERVIEW),
        "is_pending": any(queue.pending for queue in queues),
        "is_alive": any(row.is_alive for row in workers),
    }


@part(
    "overview-figures", "jobs", "workers", "queues", rollup.TOPIC, seen_by=audience_of_list, template="figures",
    every_s=1.0,
)  # fmt: skip
def overview_figures(*, whose: int) -> Mapping[str, Any]:
    """The farm in four numbers, and for operators how many jobs stand how: counted up to a bound, or estimated."""
    return {"summary": gauges.summary(viewer=whose), "health": _health(whose)}


def _health(whose: int) -> pages.Health:
    """Of the farm in the last hour, as its charts count it; of a person the last jobs: the roll-up knows no owners."""
    if whose != pages.EVERYBODY:
        return pages.health(pages.ended(viewer=whose))
    total = rollups.total(PERIODS["hour"], now=clock.now())
    return pages.Health(ended=total.judged, succeeded=total.success, mean_s=None)


@part("overview-charts", rollup.TOPIC, seen_by=audience_of_list, template="charts", every_s=1.0)
def overview_charts(*, whose: int, period: str = "hour", tag: str = "", by: str = "") -> Mapping[str, Any]:
    """Arrivals and ends, waits and runs of the last hour, day or week, of all jobs, a person's own, or a tag's; in all,
    and by queue and kind, or by what rollups.groups_for names."""
    length = PERIODS.get(period, PERIODS["hour"])
    chosen = rollups.Chosen(owner=None if whose == EVERYBODY else whose, tag=tag)
    charted = _charted(length, chosen=None if chosen.index == "all" else chosen)
    for each in rollups.groups_for(everybody=whose == EVERYBODY):
        if by == each:
            parts = rollups.groups(length, now=clock.now(), chosen=chosen, by=each)
            return {**charted, "by": each.capitalize(), "groups": parts, "since": charted["since"] or chosen.since()}
    return charted


def _charted(period: Period, *, queue: str = "", chosen: rollups.Chosen | None = None) -> dict[str, Any]:
    """The history of a period, of one queue, chosen jobs or all, its three charts, and since when nobody counts."""
    # Chosen ones are counted here and now.
    stale_since, now = _stale_since() if chosen is None else (None, clock.now())
    since = chosen and chosen.since()
    known = (since or rollups.began_at(), stale_since or now)
    history = rollups.history(period, now=now, queue=queue, chosen=chosen, known=known)
    return {
        "period": period,
        "tag": chosen.tag if chosen else "",
        "stale_since": stale_since,
        "since": since,
        "history": history,
        "table": [point for point in reversed(history.points) if point.arrived or point.ended],
        **_plots(history, period),
    }


def _stale_since() -> tuple[datetime | None, datetime]:
    """Since when nobody counts what happens, None: it is counted; and the database's now."""
    counted_at, now = rollups.last_counted_at()
    is_late = counted_at is not None and rollups.is_behind(counted_at, until=now - STALE)
    return counted_at if is_late else None, now


def _plots(history: History, period: Period) -> dict[str, Any]:
    """Its three charts, and what they have in common: times, and where nothing is known."""
    points = history.points
    ticks = charts.ticks(begin=points[0].at, length_s=period.length_s, every_s=period.tick_s)
    return {
        "ticks": ticks,
        "uprights": charts.uprights(ticks),
        "blanks": charts.blanks([point.is_counted for point in points]),
        "throughput": charts.stack(
            [
                [point.success for point in points],
                [point.failed + point.timed_out for point in points],
                [point.canceled for point in points],
            ],
            [point.arrived if point.is_counted else None for point in points],
        ),
        "waits": charts.spans([p.waited_p50_s for p in points], [p.waited_p95_s for p in points]),
        "runs": charts.spans([p.ran_p50_s for p in points], [p.ran_p95_s for p in points]),
    }


@part("queues", "jobs", "workers", "queues", seen_by=audience_of_list, every_s=1.0)
def queues(*, whose: int) -> Mapping[str, Any]:
    return {"queues": fleet.queue_rows(viewer=whose)}


@part("queue", "queue:{queue}", "work:{queue}", "jobs", "workers", seen_by=audience_of_list, every_s=1.0)
def queue(*, whose: int, queue: str) -> Mapping[str, Any] | None:
    rows = fleet.queue_rows(viewer=whose, name=queue) if queue else []
    if not rows:
        return None
    waiting = reads.waiting_queues(queue) if rows[0].is_stuck and whose == EVERYBODY else []
    unserved = [reads.unserved(row) for row in waiting if not row.served]
    return {"queue": rows[0], "unserved": unserved[0] if unserved else None}


@part("queue-shares", "queue:{queue}", "work:{queue}", "jobs", seen_by=operators, every_s=2.0)
def queue_shares(*, queue: str) -> Mapping[str, Any]:
    """What each share of a fair queue runs, may run by its weight, and has waiting."""
    return {"shares": fleet.shares(queue) if queue else []}


@part("queue-durations", rollup.TOPIC, seen_by=operators, every_s=5.0)
def queue_durations(*, queue: str) -> Mapping[str, Any]:
    """Arrivals, ends, waits and runs of one queue in the last hour; waits and runs also of the day and the week."""
    now = clock.now()
    totals = [(period, rollups.total(period, now=now, queue=queue)) for period in PERIODS.values()]
    return {"queue": queue, "totals": totals if queue else [], **_charted(PERIODS["hour"], queue=queue or "-")}


@part("queue-work", "queue:{queue}", "work:{queue}", "jobs", "workers", seen_by=audience_of_list, every_s=2.0)
def queue_work(*, whose: int, queue: str) -> Mapping[str, Any]:
    """The workers of one queue, and its newest jobs: those in progress, and the others."""
    running = lists.page(viewer=whose, filters=Filters(queue=queue, status=Status.IN_PROGRESS), limit=ON_QUEUE)
    newest = lists.page(viewer=whose, filters=Filters(queue=queue), limit=ON_QUEUE)
    return {
        "queue": queue,
        "running": running.jobs if queue else (),
        "newest": [job for job in newest.jobs if job.status != Status.IN_PROGRESS] if queue else [],
        "workers": fleet.worker_rows(viewer=whose, queue=queue, with_rates=True, jobs_each=JOBS_OF_EACH)
        if queue
        else [],
    }


@part("workers", "jobs", "workers", seen_by=audience_of_list, every_s=1.0)
def workers(*, whose: int, text: str = "", status: str = "", sort: str = "") -> Mapping[str, Any]:
    """The workers and what each of them does: those whose name, host, queues or labels have the text, of that status
    (WORKER_STATUSES), by one of WORKER_ORDERS, else those seen last first."""
    rows = fleet.worker_rows(viewer=whose, with_revoked=True, with_rates=True, jobs_each=JOBS_OF_EACH)
    chosen = [row for row in rows if _fits(row, text.lower(), status)]
    if sort in WORKER_ORDERS:
        chosen.sort(key=WORKER_ORDERS[sort])
    return {"workers": chosen, "is_narrowed": bool(rows) and not chosen}


def _fits(row: fleet.WorkerRow, text: str, status: str) -> bool:
    if status and status != ("drained" if row.is_drained else row.presence.value):
        return False
    named = [row.worker.name, *row.worker.queues, *(f"{key}={value}" for key, value in row.labels.items())]
    host = row.facts.host if row.facts else None
    return not text or any(text in each.lower() for each in (*named, host or ""))


@part("timeline", "jobs", "workers", seen_by=operators, every_s=3.0)
def timeline_of_workers(*, minutes: int) -> Mapping[str, Any]:
    """What all workers ran of late: a lane for each."""
    return {"timeline": done.timeline(minutes if minutes in TIMELINE_MINUTES else TIMELINE_MINUTES[1])}


@part("worker", "worker:{worker_id}", "jobs", "workers", seen_by=audience_of_worker, every_s=1.0)
def worker(*, worker_id: int) -> Mapping[str, Any] | None:
    row = fleet.worker_row(worker_id, jobs_each=JOBS_OF_ONE)
    return None if row is None else {"row": row}


@part("worker-history", "worker:{worker_id}", "jobs", seen_by=audience_of_worker, every_s=5.0)
def worker_history(*, worker_id: int) -> Mapping[str, Any] | None:
    """What one worker did: lately, in a week, and by day."""
    row = fleet.worker_row(worker_id)
    if row is None:
        return None
    scores = done.days(row.worker)
    return {
        "worker_name": row.worker.name,
        "lately": done.lately(worker_id),
        "failures": done.failures(worker_id),
        "days": [score for score in reversed(scores) if score is not None],
        "count": len(scores),
        "ended": sum(score.ended for score in scores if score),
        "chart": charts.stack(
            [[s.succeeded if s else 0 for s in scores], [s.ended - s.succeeded if s else 0 for s in scores]],
            [s.ended if s else 0 for s in scores],
        ),
    }


@part("worker-arrival", "worker:{worker_id}", "workers", seen_by=audience_of_worker, every_s=0.5)
def worker_arrival(*, worker_id: int, since_ms: int) -> Mapping[str, Any] | None:
    """Whether a worker has called since a moment, in milliseconds since 1970: then its new key is in use."""
    row = fleet.worker_row(worker_id)
    if row is None:
        return None
    seen = row.worker.last_seen_at
    return {"row": row, "has_arrived": seen is not None and seen.timestamp() * 1000 > since_ms}
