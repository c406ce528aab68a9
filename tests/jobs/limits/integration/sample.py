"""Limits and kinds for these tests, and what is stored of them."""

from datetime import timedelta
from typing import Any

from jobs.models import Job, Kind
from ratelimits import operations as limits
from ratelimits.models import Bucket
from ratelimits.operations import FixedWindow, TokenBucket
from tests import farm

MINUTE = timedelta(minutes=1)
AGES = timedelta(days=1000)
TEN = limits.declare("test/ten", TokenBucket(10, MINUTE))
SLOW = limits.declare("test/slow", TokenBucket(10, AGES))  # nothing comes in while a test runs
WINDOWS = limits.declare("test/windows", FixedWindow(3, timedelta(hours=1)))
NO_DEBT = limits.declare("test/no-debt", TokenBucket(2, AGES, max_reserved=0))
SOME_DEBT = limits.declare("test/some-debt", TokenBucket(2, MINUTE, max_reserved=3))
PLENTY = limits.declare("test/plenty", TokenBucket(1000, AGES))
FAR = limits.declare("test/far", TokenBucket(1, timedelta(days=5000)))


def kind(name: str = "work", *, limit: str = TEN, **fields: Any) -> Kind:
    """A kind with a limit."""
    return farm.kind(name, limit=limit, **fields)


def waits_s(jobs: list[Job]) -> list[float]:
    """How long after it came in each job may start, in seconds; those that may at once differ by microseconds, which
    keep their order."""
    return [max(0.0, (job.run_at - job.created_at).total_seconds()) for job in jobs]


def left(name: str, key: str | None = None) -> float:
    """How many tokens there are, whole: what came in meanwhile is less than one."""
    return round(limits.get_value(name, key=key).value, 3)


def used(name: str) -> dict[str, float]:
    """What was taken of a limit, by key."""
    return dict(Bucket.objects.filter(name=name).values_list("key", "used"))
