"""Counters and histograms of jobs, from the minutes that the roll-up has settled.

Each process adds up the minutes that were settled since its first scrape. A settled minute never changes, so the sums
only grow, and each job is in them once; they begin anew with the process, as counters may. Nothing is counted for this
on a job's way, and what ends in a janitor or a cluster is in it too.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from jobs.domain import rollups
from jobs.models import Rollup
from jobs.queries import gauges

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
    """What was settled since the first call of `families`."""

    def __init__(self) -> None:
        self._until: datetime | None = None
        self._queues: defaultdict[str, _Queue] = defaultdict(_Queue)

    def families(self) -> Iterator[Metric]:
        """The sums so far. Reads the database."""
        settled = gauges.settled(since=self._until)
        if settled is not None:
            for minute in settled.minutes:
                self._queues[minute.queue].add(minute)
            self._until = max(settled.until, self._until or settled.until)
        yield from self._counters()
        yield self._histogram("run", "How long runs took that ended a job by themselves.")
        yield self._histogram("wait", "How long jobs were due until they were claimed for their last attempt.")

    def _counters(self) -> Iterator[Metric]:
        arrived = CounterMetricFamily("jobfarm_jobs_submitted", "Jobs that came in.", labels=["queue"])
        ended = CounterMetricFamily("jobfarm_jobs_ended", "Jobs that ended.", labels=["queue", "outcome"])
        for name, queue in sorted(self._queues.items()):
            arrived.add_metric([name], queue.arrived)
            for outcome, number in queue.ended.items():
                ended.add_metric([name, outcome], number)
        yield from (arrived, ended)

    def _histogram(self, name: str, about: str) -> Metric:
        family = HistogramMetricFamily(f"jobfarm_job_{name}_seconds", about, labels=["queue"])
        for queue_name, queue in sorted(self._queues.items()):
            counts = queue.ran if name == "run" else queue.waited
            family.add_metric([queue_name], buckets=buckets(counts), sum_value=rollups.total_s(counts))
        return family


def buckets(counts: rollups.Counts) -> Sequence[tuple[str, float]]:
    """The cumulative buckets of Prometheus that the roll-up's make."""
    below = [
        (str(bound_s), float(sum(n for key, n in counts.items() if rollups.bounds_s(int(key))[1] <= bound_s)))
        for bound_s in BOUNDS_S
    ]
    return [*below, ("+Inf", float(sum(counts.values())))]
