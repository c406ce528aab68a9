"""When a function may be scheduled for."""

import math
from datetime import datetime, timedelta

from scheduling.errors import BadMoment

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
