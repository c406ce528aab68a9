"""The text of /metrics, in the words of Prometheus (docs/adr/0033, the table in docs/operations.md).

Two halves: what this process did itself (observing.numbers), and what the farm has in common, which every web process
reads from the database alike. Of the past nothing is counted for this: it comes from the roll-up of the charts.
"""

import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection, transaction
from prometheus_client import REGISTRY, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector
from psycopg_pool import PoolTimeout

from jobfarm import __version__, database_health, job_metrics, presence
from jobs import operations as jobs
from jobs.models import ALL_JOBS
from jobs.queries import fleet, gauges, keys, pages, reads
from outbox import operations as outbox
from postgres import deadline, statements
from postgres.errors import PostgresError
from scheduling import operations as scheduling
from webhooks import operations as webhooks

# Several Prometheus servers, or one that asks often, cost the database no more than one that asks every five seconds.
KEPT_S: Final = 5.0
STATEMENT_MS: Final = 3000
READ_WITHIN_S: Final = 5.0  # Prometheus gives up after ten, and the database may answer nothing at all
UP: Final = "jobfarm_database_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was read of the database, and when by this process's clock."""

    at: float
    families: Sequence[Metric]


class Farm(Collector):
    """What the farm has in common. One for a process: it adds up what it has reported of the past."""

    def __init__(self) -> None:
        self._reading: Reading | None = None
        self._past = job_metrics.Past()
        self._one_at_a_time = threading.Lock()

    def collect(self) -> Iterator[Metric]:
        """Everything, at most KEPT_S old. Without a database only that it does not answer: what the process counted
        itself is worth reading then more than ever."""
        with self._one_at_a_time:
            if self._reading is None or time.monotonic() > self._reading.at + KEPT_S:
                self._reading = Reading(at=time.monotonic(), families=self._read())
            families = self._reading.families
        yield InfoMetricFamily("jobfarm", "Which release this process runs.", value={"version": __version__})
        yield from families
        yield from _pool()

    def _read(self) -> Sequence[Metric]:
        try:
            with deadline.within(READ_WITHIN_S), transaction.atomic():
                statements.load("jobfarm", "hurry").run({"ms": STATEMENT_MS})
                families = [
                    *_queues(),
                    *_workers(),
                    *_processes(),
                    *_usage(),
                    *self._past.families(),
                    *_functions(),
                    *_webhooks(),
                    *_outbox(),
                    *_database(),
                    *_disks(),
                ]
        except (DatabaseError, PostgresError, PoolTimeout):
            return [GaugeMetricFamily(UP, "Whether the database answers.", value=0)]
        return [GaugeMetricFamily(UP, "Whether the database answers.", value=1), *families]


def text() -> bytes:
    return generate_latest(REGISTRY) + generate_latest(FARM)


def _queues() -> Iterator[Metric]:
    waiting = GaugeMetricFamily(
        "jobfarm_queue_waiting", f"Jobs that wait, counted up to {fleet.COUNTED}.", labels=["queue"]
    )
    oldest = GaugeMetricFamily(
        "jobfarm_queue_oldest_seconds", "Since when the job that is due longest has been.", labels=["queue"]
    )
    running = GaugeMetricFamily("jobfarm_queue_running", "Jobs that run.", labels=["queue"])
    workers = GaugeMetricFamily("jobfarm_queue_workers", "Live workers that serve it.", labels=["queue"])
    paused = GaugeMetricFamily("jobfarm_queue_paused", "1 while it is paused.", labels=["queue"])
    ages = gauges.oldest_waiting_s()
    for queue in fleet.queue_rows(viewer=pages.EVERYBODY):
        label = [queue.name]
        waiting.add_metric(label, queue.pending)
        oldest.add_metric(label, ages.get(queue.name, 0.0))
        running.add_metric(label, queue.running)
        workers.add_metric(label, queue.workers)
        paused.add_metric(label, float(queue.paused_at is not None))
    yield from (waiting, oldest, running, workers, paused)


def _workers() -> Iterator[Metric]:
    live = keys.count_live()
    yield GaugeMetricFamily("jobfarm_workers_live", "Workers seen lately.", value=live.workers)
    yield GaugeMetricFamily(
        "jobfarm_workers_drained", "Those of them that are drained: they are given no jobs.", value=live.drained
    )
    yield GaugeMetricFamily(
        "jobfarm_lease_overdue_seconds",
        "By how much the running job most past its lease is; more than 5: janitors are missing or stuck.",
        value=reads.overdue_s(),
    )


def _processes() -> Iterator[Metric]:
    reporting = GaugeMetricFamily(
        "jobfarm_processes", "Web processes and janitors that report themselves.", labels=["part"]
    )
    for part, number in presence.counts().items():
        reporting.add_metric([part], number)
    yield reporting


def _usage() -> Iterator[Metric]:
    used = GaugeMetricFamily("jobfarm_usage", "What all jobs together have.", labels=["resource"])
    quota = GaugeMetricFamily("jobfarm_quota", "What all jobs together may have.", labels=["resource"])
    for one in jobs.used(ALL_JOBS):
        label = [one.resource.replace(" ", "_")]
        used.add_metric(label, one.used)
        if one.quota:
            quota.add_metric(label, one.quota)
    yield from (used, quota)


def _functions() -> Iterator[Metric]:
    facts = scheduling.health()
    clusters = GaugeMetricFamily("jobfarm_clusters_live", "Clusters that reported lately.", labels=["role"])
    free = GaugeMetricFamily("jobfarm_cluster_workers_free", "Their processes with nothing to do.", labels=["role"])
    for role in ("mutations", "actions"):
        theirs = [cluster for cluster in facts.clusters if cluster.role == role]
        clusters.add_metric([role], len(theirs))
        free.add_metric([role], sum(cluster.free for cluster in theirs))
    late = GaugeMetricFamily("jobfarm_functions_late", "Functions 15 s past their time, up to 1000.", value=facts.late)
    oldest = GaugeMetricFamily(
        "jobfarm_functions_oldest_late_seconds", "By how much the latest of them is.", value=facts.oldest_late_s
    )
    bad = GaugeMetricFamily(
        "jobfarm_functions_bad_of_a_day", "Functions that ended so within a day, up to 1000.", labels=["status"]
    )
    for state, number in (("failed", facts.failed), ("unknown", facts.unknown)):
        bad.add_metric([state], number)
    frozen = GaugeMetricFamily(
        "jobfarm_clusters_frozen_of_a_day", "Clusters that froze within a day.", value=facts.frozen
    )
    yield from (clusters, free, late, oldest, bad, frozen, _colliding(facts), _lateness())


def _colliding(facts: scheduling.Health) -> Metric:
    colliding = GaugeMetricFamily(
        "jobfarm_mutation_collisions",
        "Runs that collided, of mutations that still wait to be run again (the 20 with the most, by function).",
        labels=["function", "statement"],
    )
    worst: dict[tuple[str, str], int] = {}
    for one in facts.colliding:
        label = (one.function, one.statement[:100])
        worst[label] = max(worst.get(label, 0), one.collisions)
    for label, collisions in worst.items():
        colliding.add_metric(label, collisions)
    return colliding


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


def _webhooks() -> Iterator[Metric]:
    facts = webhooks.health()
    deliveries = GaugeMetricFamily(
        "jobfarm_webhook_deliveries", "Deliveries that stand so now, up to 10000.", labels=["status"]
    )
    for state in ("waiting", "late", "failed", "dead", "rejected"):
        deliveries.add_metric([state], getattr(facts, state))
    yield deliveries
    yield GaugeMetricFamily(
        "jobfarm_webhook_jobs_not_started",
        "Jobs that a rule should have started within a day and did not, up to 10000.",
        value=facts.unstarted,
    )
    yield GaugeMetricFamily(
        "jobfarm_webhook_sources_unreadable",
        "Sources whose secret SECRET_KEY does not open.",
        value=len(facts.unreadable),
    )


def _outbox() -> Iterator[Metric]:
    facts = outbox.health()
    messages = GaugeMetricFamily(
        "jobfarm_outbox_messages", "Messages that stand so now, up to 10000.", labels=["status"]
    )
    messages.add_metric(["waiting"], facts.waiting)
    messages.add_metric(["dead"], facts.dead)
    yield messages
    for name, about, value in (
        ("oldest_due_seconds", "Since when a message is due that could have been sent.", facts.oldest_due_s),
        ("endpoint_failing_seconds", "For how long every attempt to an endpoint has failed.", facts.failing_s),
        ("endpoints_paused", "Endpoints that the farm paused because every attempt failed.", facts.paused),
        ("endpoints_unreadable", "Endpoints whose secret SECRET_KEY does not open.", facts.unreadable),
    ):
        yield GaugeMetricFamily(f"jobfarm_outbox_{name}", about, value=value)


def _database() -> Iterator[Metric]:
    oldest = max((row.seconds for row in statements.load("jobfarm", "oldest_snapshot").run()), default=0.0)
    yield GaugeMetricFamily(
        "jobfarm_database_oldest_transaction_seconds",
        "Since when the oldest open transaction is: what died since then cannot be cleaned up.",
        value=float(oldest),
    )
    dead = sum(row.dead for row in statements.load("jobfarm", "dead_rows").run())
    yield GaugeMetricFamily("jobfarm_jobs_dead_rows", "Dead rows of the table of jobs, estimated.", value=dead)


def _disks() -> Iterator[Metric]:
    """Those of this machine that the farm fills."""
    free = GaugeMetricFamily("jobfarm_disk_free_bytes", "What a disk of this machine has left.", labels=["disk"])
    size = GaugeMetricFamily("jobfarm_disk_bytes", "Its size.", labels=["disk"])
    folders = {
        "database": database_health.data_folder(),
        "files": None if settings.FILES_ORIGIN else settings.MEDIA_ROOT,
    }
    for name, folder in folders.items():
        if folder is not None and folder.exists():
            usage = shutil.disk_usage(folder)
            free.add_metric([name], usage.free)
            size.add_metric([name], usage.total)
    yield from (free, size)


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
