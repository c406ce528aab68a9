"""The text of /metrics, in the words of Prometheus (docs/adr/0033, the table in docs/operations.md).

Two halves: what this process did itself (observing.numbers), and what the farm has in common, which every web process
reads from the database alike. Of the past nothing is counted for this: it comes from the roll-up of the charts.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.db import Error as DatabaseError, connection, transaction
from prometheus_client import REGISTRY, core as prometheus, generate_latest
from prometheus_client.registry import Collector
from psycopg_pool import PoolTimeout

from jobfarm import __version__, database_health, health, job_health, message_health, scheduler_health
from jobfarm.findings import Area, Remembered
from jobs.domain import rollups
from jobs.models import Rollup
from jobs.queries import gauges
from postgres import deadline, statements
from postgres.errors import PostgresError

OUTCOMES: Final = ("success", "failed", "canceled", "timed_out")
# The bounds that are reported, in seconds: every second octave from 16 ms to four and a half hours. The roll-up's own
# are a fourth of an octave apart, so each of these is one of them.
BOUNDS_S: Final = tuple(2.0**octave for octave in range(-6, 15, 2))


@dataclass(slots=True)
class _Queue:
    arrived: int = 0
    ended: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    ran: dict[str, int] = field(default_factory=dict)
    waited: dict[str, int] = field(default_factory=dict)

    def add(self, minute: Rollup) -> None:
        self.arrived += minute.arrived
        for outcome in OUTCOMES:
            self.ended[outcome] += getattr(minute, outcome)
        self.ran = rollups.merged([self.ran, minute.ran])
        self.waited = rollups.merged([self.waited, minute.waited])


class Past:
    """Counters and histograms of jobs from the minutes that the roll-up has settled since the first call of `families`.

    A settled minute never changes, so the sums only grow, and each job is in them once; they begin anew with the
    process, as counters may. Nothing is counted for this on a job's way, and what ends in a janitor or a cluster is in
    it too.
    """

    def __init__(self) -> None:
        self._until: datetime | None = None
        self._queues: defaultdict[str, _Queue] = defaultdict(_Queue)

    def families(self) -> Iterator[prometheus.Metric]:
        settled = gauges.settled(since=self._until)
        if settled is not None:
            for minute in settled.minutes:
                self._queues[minute.queue].add(minute)
            self._until = max(settled.until, self._until or settled.until)
        yield from self._counters()
        yield self._histogram("run", "How long runs took that ended a job by themselves.")
        yield self._histogram("wait", "How long jobs were due until they were claimed for their last attempt.")

    def _counters(self) -> Iterator[prometheus.Metric]:
        arrived = prometheus.CounterMetricFamily("jobfarm_jobs_submitted", "Jobs that came in.", labels=["queue"])
        ended = prometheus.CounterMetricFamily("jobfarm_jobs_ended", "Jobs that ended.", labels=["queue", "outcome"])
        for name, queue in sorted(self._queues.items()):
            arrived.add_metric([name], queue.arrived)
            for outcome, number in queue.ended.items():
                ended.add_metric([name, outcome], number)
        yield from (arrived, ended)

    def _histogram(self, name: str, about: str) -> prometheus.Metric:
        family = prometheus.HistogramMetricFamily(f"jobfarm_job_{name}_seconds", about, labels=["queue"])
        for queue_name, queue in sorted(self._queues.items()):
            counts = queue.ran if name == "run" else queue.waited
            family.add_metric([queue_name], buckets=buckets(counts), sum_value=rollups.total_s(counts))
        return family


def buckets(counts: rollups.Counts) -> Sequence[tuple[str, float]]:
    below = [
        (str(bound_s), float(sum(n for key, n in counts.items() if rollups.bounds_s(int(key))[1] <= bound_s)))
        for bound_s in BOUNDS_S
    ]
    return [*below, ("+Inf", float(sum(counts.values())))]


# Several Prometheus servers, or one that asks often, cost the database no more than one that asks every five seconds.
KEPT_S: Final = 5.0
STATEMENT_MS: Final = 3000
READ_WITHIN_S: Final = 5.0  # Prometheus gives up after ten, and the database may answer nothing at all
UP: Final = "jobfarm_database_up"
AREAS: Final[Sequence[Area[Any]]] = (
    job_health.queue_gauges, job_health.workers, health.janitor, health.processes, job_health.quotas,
    scheduler_health.scheduler, message_health.inbox, message_health.events, database_health.snapshots,
    database_health.dead_rows, database_health.disks,
)  # fmt: skip


class Farm(Collector):
    """What the farm has in common. One for a process: it adds up what it has reported of the past."""

    def __init__(self) -> None:
        self._past = Past()
        self.families = Remembered(self._read, for_s=KEPT_S)

    def collect(self) -> Iterator[prometheus.Metric]:
        """Everything, at most KEPT_S old. Without a database only that it does not answer: what the process counted
        itself is worth reading then more than ever."""
        yield prometheus.InfoMetricFamily("jobfarm", "Which release this process runs.", value={"version": __version__})
        yield from self.families()
        yield from _pool()

    def _read(self) -> Sequence[prometheus.Metric]:
        try:
            with deadline.within(READ_WITHIN_S), transaction.atomic():
                statements.load("jobfarm", "hurry").run({"ms": STATEMENT_MS})
                families = [family for area in AREAS for family in area.families()]
                families += [*self._past.families(), _lateness()]
        except (DatabaseError, PostgresError, PoolTimeout):
            return [prometheus.GaugeMetricFamily(UP, "Whether the database answers.", value=0)]
        return [prometheus.GaugeMetricFamily(UP, "Whether the database answers.", value=1), *families]


def text() -> bytes:
    return generate_latest(REGISTRY) + generate_latest(FARM)


def _lateness() -> prometheus.Metric:
    lateness = prometheus.Metric(
        "jobfarm_function_lateness_seconds",
        "How late functions began that ended in the last five minutes (the latest 1000); quantile 1 is the most.",
        "summary",
    )
    [row] = statements.load("scheduling", "lateness").run()
    for quantile, seconds in (("0.5", row.p50_s), ("0.99", row.p99_s), ("1", row.most_s)):
        lateness.add_sample(lateness.name, {"quantile": quantile}, seconds)
    return lateness


def _pool() -> Iterator[prometheus.Metric]:
    """Of this process's connections. It stands apart: it is true and wanted when the database does not answer."""
    pool = getattr(connection, "pool", None)
    if pool is None:
        return
    stats = pool.get_stats()
    size = prometheus.GaugeMetricFamily("jobfarm_pool_connections", "Connections of this process.", labels=["state"])
    size.add_metric(["open"], stats.get("pool_size", 0))
    size.add_metric(["idle"], stats.get("pool_available", 0))
    size.add_metric(["most"], stats.get("pool_max", 0))
    yield size
    yield prometheus.GaugeMetricFamily(
        "jobfarm_pool_waiting", "Requests that wait for a connection.", value=stats.get("requests_waiting", 0)
    )
    yield prometheus.CounterMetricFamily(
        "jobfarm_pool_errors", "Requests that got none in time.", value=stats.get("requests_errors", 0)
    )


FARM: Final = Farm()
