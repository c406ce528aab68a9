"""How many functions the workers of a cluster ran, and how that went, in memory that all its processes share.

A cell has one writer at a time: a row belongs to one worker's place, and whoever takes the place goes on counting
there. So the numbers only grow for as long as the supervisor lives, whichever of the others are killed.
"""

import bisect
from collections.abc import Iterator, Sequence
from multiprocessing.sharedctypes import RawArray
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

OUTCOMES: Final = ("success", "failed", "again")  # again: put back, to be run once more
BOUNDS_S: Final = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0, 300.0, 1800.0)
_SECONDS, _COLLISIONS = len(OUTCOMES), len(OUTCOMES) + 1
_BUCKETS: Final = len(OUTCOMES) + 2
_WIDTH: Final = _BUCKETS + len(BOUNDS_S) + 1


class FunctionCounts:
    """The counts of one cluster with so many places for workers. Made before its processes are forked."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._cells: Any = RawArray("d", places * _WIDTH)
        self._deaths: Any = RawArray("q", 1)  # the dispatcher's
        self.restarts = 0  # the supervisor's own

    def add(self, place: int, *, outcome: str, seconds: float, collisions: int) -> None:
        start = place * _WIDTH
        self._cells[start + OUTCOMES.index(outcome)] += 1
        self._cells[start + _SECONDS] += seconds
        self._cells[start + _COLLISIONS] += collisions
        self._cells[start + _BUCKETS + bisect.bisect_left(BOUNDS_S, seconds)] += 1

    def worker_died(self) -> None:
        """A worker ended that should not have; another takes its place."""
        self._deaths[0] += 1

    def families(self, role: str) -> Iterator[Metric]:
        sums = self._sums()
        ran = CounterMetricFamily(
            "jobfarm_functions_run", "Runs of functions by this cluster.", labels=["role", "outcome"]
        )
        for outcome, number in zip(OUTCOMES, sums, strict=False):
            ran.add_metric([role, outcome], number)
        took = HistogramMetricFamily(
            "jobfarm_function_run_seconds", "How long runs of functions took.", labels=["role"]
        )
        took.add_metric([role], buckets=_cumulative(sums[_BUCKETS:]), sum_value=sums[_SECONDS])
        yield from (ran, took)
        for name, about, value in (
            ("function_collisions", "Tries that collided with others and were made again at once.", sums[_COLLISIONS]),
            ("cluster_worker_deaths", "Workers of this cluster that were killed or died.", self._deaths[0]),
            ("cluster_restarts", "Times that this cluster died or froze and began anew.", self.restarts),
        ):
            counter = CounterMetricFamily(f"jobfarm_{name}", about, labels=["role"])
            counter.add_metric([role], value)
            yield counter

    def _sums(self) -> list[float]:
        rows = [self._cells[place * _WIDTH : (place + 1) * _WIDTH] for place in range(self._places)]
        return [sum(column) for column in zip(*rows, strict=True)]


class _Here:
    counts: FunctionCounts | None = None
    place = 0


_here = _Here()


def count_into(counts: FunctionCounts, place: int) -> None:
    _here.counts, _here.place = counts, place


def ran(*, outcome: str, seconds: float, collisions: int = 0) -> None:
    """A run has ended here. Outside of a cluster's worker it is not counted."""
    if _here.counts is not None:
        _here.counts.add(_here.place, outcome=outcome, seconds=seconds, collisions=collisions)


def _cumulative(counts: Sequence[float]) -> list[tuple[str, float]]:
    bounds = [*map(str, BOUNDS_S), "+Inf"]
    return [(bound, sum(counts[: index + 1])) for index, bound in enumerate(bounds)]
