"""When a function may be scheduled for."""

import math
from datetime import datetime, timedelta

from scheduling.errors import BadMoment

FARTHEST = timedelta(days=5 * 365)  # reference: the built-in scheduler of the original takes five years


def delay(given: timedelta | float) -> timedelta:
    """`given` (a timedelta, or seconds) as a timedelta. Raises BadMoment unless it is finite, from 0 to five years."""
    if isinstance(given, bool) or not isinstance(given, timedelta | int | float):
        raise BadMoment(why=f"a delay is a timedelta or a number of seconds, not {type(given).__name__}")
    seconds = given.total_seconds() if isinstance(given, timedelta) else float(given)
    if not math.isfinite(seconds):
        raise BadMoment(why=f"a delay must be finite, not {seconds}")
    if seconds < 0:
        raise BadMoment(why=f"a delay must not be negative, and this is {seconds:g} s")
    if seconds > FARTHEST.total_seconds():
        raise BadMoment(why=f"a delay is at most five years, and this is {seconds:g} s")
    return given if isinstance(given, timedelta) else timedelta(seconds=seconds)


def moment(given: datetime, *, now: datetime) -> datetime:
    """`given`, also if it has passed. Raises BadMoment unless it is aware and within five years of `now`."""
    if not isinstance(given, datetime):
        raise BadMoment(why=f"a moment is a datetime, not {type(given).__name__}")
    if given.utcoffset() is None:
        raise BadMoment(why=f"{given} has no time zone: a moment must be aware")
    if abs(given - now) > FARTHEST:
        raise BadMoment(why=f"{given} is more than five years away")
    return given
