"""What the charts show of a period: what happened in each of its steps, and by queue, kind, owner or tag."""

from dataclasses import dataclass
from datetime import datetime

from jobs.domain import rollups


def _quantile(name: str, share: float) -> property:
    return property(lambda point: rollups.quantile_s(getattr(point, name), share))


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
    ran: rollups.Counts
    waited: rollups.Counts
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
