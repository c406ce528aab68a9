"""What is counted of the past: steps of time, durations in buckets, their percentiles, and what charts show of it.

Times are counted in buckets whose edges are a fourth of an octave apart, so that counts of many minutes and queues can
be added up and still say a percentile within a tenth or so of its true value. jobs/sql/rollup_minutes.sql counts by the
same rule; a test compares the two.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

MINUTE_S: Final = 60
TEN_MINUTES_S: Final = 600
HOUR_S: Final = 3600
STEPS_S: Final = frozenset({MINUTE_S, TEN_MINUTES_S, HOUR_S})

PER_OCTAVE: Final = 4
SHORTEST_S: Final = 0.001  # all that is shorter lies in the first bucket
LONGEST_S: Final = 8 * 366 * 86400.0

Counts = Mapping[str, int]  # bucket -> number; JSON has texts for keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A period that ends now, the step in which it is drawn, and how far apart times are labelled."""

    code: str
    title: str
    length_s: int
    step_s: int
    tick_s: int

    @property
    def steps(self) -> int:
        return self.length_s // self.step_s


PERIODS: Final = {
    period.code: period
    for period in (
        Period(code="hour", title="hour", length_s=HOUR_S, step_s=MINUTE_S, tick_s=HOUR_S // 4),
        Period(code="day", title="day", length_s=24 * HOUR_S, step_s=TEN_MINUTES_S, tick_s=6 * HOUR_S),
        Period(code="week", title="week", length_s=7 * 24 * HOUR_S, step_s=HOUR_S, tick_s=48 * HOUR_S),
    )
}
# How long rollups are kept: a day more than the longest period that is drawn from them.
RETENTION: Final = {MINUTE_S: timedelta(days=2), TEN_MINUTES_S: timedelta(days=8), HOUR_S: timedelta(days=8)}


def floored(moment: datetime, *, step_s: int) -> datetime:
    """The beginning of the step that holds this moment, counted from the Unix epoch in UTC."""
    return datetime.fromtimestamp(moment.timestamp() // step_s * step_s, UTC)


def bucket(seconds: float) -> int:
    within = min(max(seconds, SHORTEST_S), LONGEST_S)
    return math.floor(PER_OCTAVE * math.log(within) / math.log(2))


def bounds_s(number: int) -> tuple[float, float]:
    """The shortest duration that this bucket counts, and the first one that the next does."""
    return 2 ** (number / PER_OCTAVE), 2 ** ((number + 1) / PER_OCTAVE)


def merged(counts: Iterable[Counts]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in counts:
        for key, number in each.items():
            total[key] = total.get(key, 0) + number
    return total


def total_s(counts: Counts) -> float:
    """About what the durations add up to, each taken as the middle of its bucket: within a tenth."""
    return sum(number * sum(bounds_s(int(key))) / 2 for key, number in counts.items())


def mean_s(counts: Counts) -> float | None:
    """About what a duration is on average, in seconds; None if nothing was counted."""
    number = sum(counts.values())
    return total_s(counts) / number if number else None


def quantile_s(counts: Counts, share: float) -> float | None:
    """The duration that this share of all stayed below, in seconds; None if nothing was counted.

    Within a bucket, durations are taken to be spread evenly on the scale of the buckets.
    """
    wanted = share * sum(counts.values())
    seen = 0
    for number, count in sorted((int(key), count) for key, count in counts.items() if count > 0):
        if seen + count >= wanted:
            return float(2 ** ((number + (wanted - seen) / count) / PER_OCTAVE))
        seen += count
    return None


def _quantile(name: str, share: float) -> property:
    return property(lambda point: quantile_s(getattr(point, name), share))


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What happened in one step of time, in one queue or to one kind. Durations in seconds; None where nothing was.

    `is_counted`: whether its numbers are known; if not, all are zero.
    """

    at: datetime
    arrived: int
    success: int
    failed: int
    canceled: int
    timed_out: int
    ran: Counts
    waited: Counts
    is_counted: bool = True

    @property
    def ended(self) -> int:
        return self.success + self.failed + self.canceled + self.timed_out

    @property
    def judged(self) -> int:
        return self.success + self.failed + self.timed_out

    @property
    def failure_share(self) -> float | None:
        """Of those that ended and were not canceled, the share that failed or timed out; None if there were none."""
        return (self.failed + self.timed_out) / self.judged if self.judged else None

    # What that share of the runs, or of the waits, stayed below.
    ran_p50_s, ran_p95_s, ran_p99_s = (_quantile("ran", share) for share in (0.5, 0.95, 0.99))
    waited_p50_s, waited_p95_s, waited_p99_s = (_quantile("waited", share) for share in (0.5, 0.95, 0.99))


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What happened in one queue, or to jobs of one kind, owner or tag, and a small chart of when they ended. Without a
    name: to those of all others, `others` of them."""

    name: str
    total: Point
    line: str
    others: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What happened in a period: one point for each of its steps, the last one still growing; by queue; by kind, of
    those so many that most happened to; and in all."""

    points: tuple[Point, ...]
    queues: tuple[Part, ...]
    kinds: tuple[Part, ...]
    total: Point
