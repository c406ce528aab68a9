"""What `run_after` and `run_at` take besides a function's own arguments: its moment, its queue and its priority."""

import math
from datetime import datetime, timedelta
from typing import Any

from scheduling.errors import BadMoment, BadQueue

FARTHEST = timedelta(days=5 * 365)  # reference: the built-in scheduler of the original takes five years


def delay(value: timedelta | float) -> timedelta:
    """`value` (a timedelta, or seconds) as a timedelta. Raises BadMoment unless it is finite, from 0 to five years."""
    if isinstance(value, bool) or not isinstance(value, timedelta | int | float):
        raise BadMoment(why=f"a delay is a timedelta or a number of seconds, not {type(value).__name__}")
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if not math.isfinite(seconds):
        raise BadMoment(why=f"a delay must be finite, not {seconds}")
    if seconds < 0:
        raise BadMoment(why=f"a delay must not be negative, and this is {seconds:g} s")
    if seconds > FARTHEST.total_seconds():
        raise BadMoment(why=f"a delay is at most five years, and this is {seconds:g} s")
    return value if isinstance(value, timedelta) else timedelta(seconds=seconds)


def moment(value: datetime, *, now: datetime) -> datetime:
    """`value`, also if it has passed. Raises BadMoment unless it is aware and within five years of `now`."""
    if not isinstance(value, datetime):
        raise BadMoment(why=f"a moment is a datetime, not {type(value).__name__}")
    if value.utcoffset() is None:
        raise BadMoment(why=f"{value} has no time zone: a moment must be aware")
    if abs(value - now) > FARTHEST:
        raise BadMoment(why=f"{value} is more than five years away")
    return value


LONGEST_QUEUE = 100
MOST_PRIORITY = 100
DEFAULT_QUEUE = "default"
RESERVED = ("queue", "priority")  # what `run_after` and `run_at` take besides a function's own arguments


def queue(value: Any) -> str:
    if not isinstance(value, str) or not (0 < len(value) <= LONGEST_QUEUE) or not value.isprintable():
        raise BadQueue(why=f"a queue has a printable name of 1 to {LONGEST_QUEUE} characters, not {value!r}")
    return value


def priority(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > MOST_PRIORITY:
        raise BadQueue(why=f"a priority is a whole number from -{MOST_PRIORITY} to {MOST_PRIORITY}, not {value!r}")
    return value
