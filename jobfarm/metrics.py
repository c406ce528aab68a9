"""The text of /metrics, in the words of Prometheus (docs/adr/0033, the table in docs/operations.md).

Two halves: what this process did itself (observing.numbers), and what the farm has in common, which every web process
reads from the database alike. Of the past nothing is counted for this: it comes from the roll-up of the charts.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from django.db import Error as DatabaseError
from django.db import connection, transaction
from prometheus_client import REGISTRY, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector
from psycopg_pool import PoolTimeout

from jobfarm import __version__, database_health, health, job_health, job_metrics, message_health, scheduler_health
from jobfarm.conditions import Area
from jobfarm.remembered import Remembered
from postgres import deadline, statements
from postgres.errors import PostgresError

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
        self._past = job_metrics.Past()
        self.families = Remembered(self._read, for_s=KEPT_S)

    def collect(self) -> Iterator[Metric]:
        """Everything, at most KEPT_S old. Without a database only that it does not answer: what the process counted
        itself is worth reading then more than ever."""
        yield InfoMetricFamily("jobfarm", "Which release this process runs.", value={"version": __version__})
        yield from self.families()
        yield from _pool()

    def _read(self) -> Sequence[Metric]:
        try:
            with deadline.within(READ_WITHIN_S), transaction.atomic():
                statements.load("jobfarm", "hurry").run({"ms": STATEMENT_MS})
                families = [family for area in AREAS for family in area.families()]
                families += [*self._past.families(), _lateness()]
        except (DatabaseError, PostgresError, PoolTimeout):
            return [GaugeMetricFamily(UP, "Whether the database answers.", value=0)]
        return [GaugeMetricFamily(UP, "Whether the database answers.", value=1), *families]


def text() -> bytes:
    return generate_latest(REGISTRY) + generate_latest(FARM)


def _lateness() -> Metric:
    lateness = Metric(
        "jobfarm_function_lateness_seconds",
        "How late functions began that ended in the last five minutes (the latest 1000); quantile 1 is the most.",
        "summary",
    )
    [row] = statements.load("scheduling", "lateness").run()
    for quantile, seconds in (("0.5", row.p50_s), ("0.99", row.p99_s), ("1", row.most_s)):
        lateness.add_sample(lateness.name, {"quantile": quantile}, seconds)
    return lateness


def _pool() -> Iterator[Metric]:
    """Of this process's connections. It stands apart: it is true and wanted when the database does not answer."""
    pool = getattr(connection, "pool", None)
    if pool is None:
        return
    stats = pool.get_stats()
    size = GaugeMetricFamily("jobfarm_pool_connections", "Connections of this process.", labels=["state"])
    size.add_metric(["open"], stats.get("pool_size", 0))
    size.add_metric(["idle"], stats.get("pool_available", 0))
    size.add_metric(["most"], stats.get("pool_max", 0))
    yield size
    yield GaugeMetricFamily(
        "jobfarm_pool_waiting", "Requests that wait for a connection.", value=stats.get("requests_waiting", 0)
    )
    yield CounterMetricFamily(
        "jobfarm_pool_errors", "Requests that got none in time.", value=stats.get("requests_errors", 0)
    )


FARM: Final = Farm()
