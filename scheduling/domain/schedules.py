"""When a cron fires: intervals and calendars; which fire times become functions, and which are only counted."""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from itertools import islice
from typing import TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from scheduling.errors import BadSchedule

_DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
SHORTEST = timedelta(seconds=1)
LONGEST = timedelta(days=5 * 365)  # as far as a function can be scheduled: what lies further ahead leaves the calendar


_AS_TYPED = ", as typed"
_NO_INTERVAL = "an interval is from one second to five years"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Every so often, beginning when the cron is first seen; `written`: as somebody typed it. Moments are in UTC."""

    every: timedelta
    written: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not SHORTEST <= self.every <= LONGEST:
            raise BadSchedule(why=_NO_INTERVAL)

    @property
    def zone(self) -> tzinfo:
        return UTC

    def first(self, *, now: datetime) -> datetime | None:
        """When a cron that is new at `now` fires first; None if never."""
        return now

    def after(self, moment: datetime) -> datetime | None:
        """The first fire time after `moment`, which is one (any moment for a calendar); None if there is none."""
        return moment + self.every

    def latest(self, *, start: datetime, end: datetime, most: int) -> tuple[int, list[datetime]]:
        """How many fire times lie in [start, end], and the last `most` of them, in order. `start` is one of them.

        Counted, not walked: a year of seconds takes no longer than one."""
        count = (end - start) // self.every + 1 if end >= start else 0
        kept = range(max(count - most, 0), count)
        return count, [start + self.every * n for n in kept]

    def text(self) -> str:
        """`every 30 s`, to the microsecond; as it was typed, where it would be shown otherwise."""
        is_other = self.written not in ("", self._in_largest_unit())
        return f"{self.written}{_AS_TYPED}" if is_other else self._in_seconds()

    def typed(self) -> str:
        """As somebody typed it, else as people type: in the largest unit that needs no fraction."""
        return self.written or self._in_largest_unit()

    def _in_largest_unit(self) -> str:
        fitting = (f"every {self.every // unit} {name}" for name, unit in _UNITS.items() if not self.every % unit)
        return next(fitting, self._in_seconds())

    def _in_seconds(self) -> str:
        return f"every {_decimal(self.every)} s"


_FIVE_FIELDS = 'five fields: minute, hour, day, month, weekday, such as "0 6 * * 1-5"; nor "every 5 min"'
_WALL = datetime(2024, 1, 1, tzinfo=UTC).replace(tzinfo=None)  # a clock on the wall knows no zone
_NAMED = {
    "@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}  # fmt: skip
# A calendar schedule that missed more than this many fire times is not counted on: a minute's cron, one week.
_MOST_COUNTED = 10_080


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """A cron expression in a time zone.

    On the days when clocks change it does what Debian's cron does: a fixed time that the clock skips fires at the first
    moment after it, a time that comes twice fires at the first of the two, and one with a wildcard in its minute or
    hour goes by elapsed time. cronsim walks the wall clock alone: with a zone it takes each change for one of whole
    hours, and a midnight that is skipped for 01:00.
    """

    expression: str
    tz: str = "UTC"

    def __post_init__(self) -> None:
        shown = f"{self.expression[:60]!r}"
        if known := _NAMED.get(self.expression.lower()):
            raise BadSchedule(why=f"{shown} is written {known!r} here")
        if len(self.expression.split()) != 5:
            raise BadSchedule(why=f"{shown} is no cron expression of {_FIVE_FIELDS}")
        _zone(self.tz)
        try:
            is_ever = next(CronSim(self.expression, _WALL), None)
        except (CronSimError, ValueError) as error:
            raise BadSchedule(why=f"{shown} is no cron expression: {str(error)[:60]}") from None
        if is_ever is None:
            raise BadSchedule(why=f"{shown} never fires: no such day comes within fifty years")

    @property
    def zone(self) -> tzinfo:
        return _zone(self.tz)

    def first(self, *, now: datetime) -> datetime | None:
        return self.after(now)

    def after(self, moment: datetime) -> datetime | None:
        return next(self._from(moment), None)

    def latest(self, *, start: datetime, end: datetime, most: int) -> tuple[int, list[datetime]]:
        """Walked; beyond 10,080 fire times the count stops and only the last ones are looked for."""
        fire_times = [start, *islice(self._until(start, end), _MOST_COUNTED)] if start <= end else []
        if len(fire_times) <= _MOST_COUNTED:
            return len(fire_times), fire_times[-most:] if most else []
        back = end - timedelta(days=1)
        while back > start and len(list(islice(self._until(back, end), most))) < most:
            back = max(start, end - (end - back) * 4)
        recent = list(self._until(back, end))
        return max(len(fire_times), len(recent)), recent[-most:] if most else []

    def text(self) -> str:
        """`0 6 * * * in Europe/Berlin`."""
        return f"{self.expression} in {self.tz}"

    def typed(self) -> str:
        return self.expression

    def _until(self, start: datetime, end: datetime) -> Iterator[datetime]:
        for moment in self._from(start):
            if moment > end:
                return
            yield moment

    def _from(self, moment: datetime) -> Iterator[datetime]:
        """Fire times after `moment`; strictly growing, whatever the wall clock does."""
        last = moment
        # A little earlier, because the clock on the wall may have gone back since.
        start = (moment - timedelta(hours=3)).astimezone(self.zone).replace(tzinfo=None)
        minute, hour, *_ = self.expression.split()
        by_elapsed_time = minute.startswith("*") or hour.startswith("*")
        walk = _elapsed if by_elapsed_time else _fixed
        for fire_time in walk(CronSim(self.expression, start), self.zone):
            if fire_time > last:
                yield fire_time
                last = fire_time


Schedule: TypeAlias = Interval | Calendar


def _fixed(walls: Iterable[datetime], zone: tzinfo) -> Iterator[datetime]:
    """The first moment of each of these times of the wall clock; of one that is skipped, the first after it."""
    for wall in walls:
        first, second = _moments(wall, zone)
        yield first if first <= second else _change(second, first, zone)


def _elapsed(walls: Iterable[datetime], zone: tzinfo) -> Iterator[datetime]:
    """Every moment at which the wall clock shows one of these times, in order."""
    again: deque[datetime] = deque()  # the second ones of an hour that comes twice
    for wall in walls:
        first, second = _moments(wall, zone)
        while again and again[0] < first:
            yield again.popleft()
        if first <= second:  # else it is skipped
            yield first
        if first < second:
            again.append(second)
    yield from again


def _moments(wall: datetime, zone: tzinfo) -> tuple[datetime, datetime]:
    """By the offset before a change of the clock, and by the one after it: two where a time comes twice; the later one
    first where it is skipped; else the same."""
    first, second = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    return first, second


def _change(before: datetime, after: datetime, zone: tzinfo) -> datetime:
    """The second at which the clock changes between these moments."""
    old = before.astimezone(zone).utcoffset()
    while after - before > timedelta(seconds=1):
        middle = before + (after - before) // timedelta(seconds=2) * timedelta(seconds=1)
        is_old = middle.astimezone(zone).utcoffset() == old
        before, after = (middle, after) if is_old else (before, middle)
    return after


def interval(*, seconds: float = 0, minutes: float = 0, hours: float = 0, every: timedelta | None = None) -> Interval:
    """Every so often; the first time at once. Raises BadSchedule unless it is from a second to five years."""
    total = seconds + minutes * 60 + hours * 3600
    if every is not None and total:
        raise BadSchedule(why="say either every= or seconds=, minutes=, hours=")
    if every is None and not 0 <= total <= LONGEST.total_seconds():  # a NaN neither, and what no timedelta can hold
        raise BadSchedule(why=_NO_INTERVAL)
    return Interval(every=every if every is not None else timedelta(seconds=total))


def hourly(*, minute: int = 0, tz: str = "UTC") -> Calendar:
    """Every hour at this minute. Raises BadSchedule."""
    return cron(f"{minute} * * * *", tz=tz)


def daily(*, hour: int = 0, minute: int = 0, tz: str = "UTC") -> Calendar:
    """Every day at this time of the zone. Raises BadSchedule."""
    return cron(f"{minute} {hour} * * *", tz=tz)


def weekly(*, day: str = "monday", hour: int = 0, minute: int = 0, tz: str = "UTC") -> Calendar:
    """Every week on this day ("monday" ...). Raises BadSchedule."""
    if day.lower() not in _DAYS:
        raise BadSchedule(why=f"{day!r} is no day: one of {', '.join(_DAYS)}")
    return cron(f"{minute} {hour} * * {_DAYS.index(day.lower())}", tz=tz)


def monthly(*, day: int = 1, hour: int = 0, minute: int = 0, tz: str = "UTC") -> Calendar:
    """Every month on this day; months without it are left out. Raises BadSchedule."""
    return cron(f"{minute} {hour} {day} * *", tz=tz)


def cron(expression: str, *, tz: str = "UTC") -> Calendar:
    """A cron expression of five fields: minute, hour, day of month, month, day of week. Raises BadSchedule."""
    return Calendar(expression=" ".join(expression.split()), tz=tz)


def parse(text: str) -> Schedule:
    """The schedule that `text()` wrote. Raises BadSchedule."""
    if text.endswith(_AS_TYPED):
        return typed(text.removesuffix(_AS_TYPED), tz="UTC")
    if text.startswith("every "):
        return interval(seconds=_seconds(text.removeprefix("every ").removesuffix(" s")))
    expression, _, tz = text.rpartition(" in ")
    return cron(expression, tz=tz)


def upcoming(schedule: Schedule, *, first: datetime | None, count: int) -> list[datetime]:
    """The next `count` fire times, `first` being the next one."""
    moments: list[datetime] = []
    while first is not None and len(moments) < count:
        moments.append(first)
        first = schedule.after(first)
    return moments


_UNITS = {"h": timedelta(hours=1), "min": timedelta(minutes=1), "s": timedelta(seconds=1)}
_EVERY = re.compile(r"every ([0-9]{1,9}(?:\.[0-9]{1,6})?) ?(s|min|h)")


def typed(text: str, *, tz: str) -> Schedule:
    """What a person typed: "every 30 s", "every 5 min", "every 2 h", or a cron expression of the zone `tz`. Raises
    BadSchedule."""
    if every := _EVERY.fullmatch(" ".join(text.split())):
        length = interval(seconds=float(every[1]) * _UNITS[every[2]].total_seconds())
        return replace(length, written=every[0])
    return cron(text, tz=tz)


def _decimal(length: timedelta) -> str:
    whole, rest = divmod(length, timedelta(seconds=1))
    return f"{whole}.{rest // timedelta(microseconds=1):06}".rstrip("0") if rest else f"{whole}"


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadSchedule(why=f"{text!r} is no number of seconds") from None


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadSchedule(why=f"there is no time zone {name!r}") from None


# A firing that comes later than this was missed. It is the time within which the work of a dead process comes back.
LATE = timedelta(seconds=15)
MOST_CAUGHT_UP = 1000


class Missed(StrEnum):
    """What becomes of fire times that passed while nothing ran."""

    SKIP = "skip"
    ONCE = "once"
    CATCH_UP = "catch_up"


class Source(StrEnum):
    """Who says what a cron is: an app's `crons.py`, that but changed by a person since, or a person alone."""

    CODE = "code"
    EDITED = "edited"
    PERSON = "person"


class Overlap(StrEnum):
    """What becomes of a firing while an earlier one has not ended."""

    SKIP = "skip"
    ALLOW = "allow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How a cron treats missed and overlapping firings. `at_most` is for CATCH_UP."""

    missed: Missed = Missed.ONCE  # a daily report that is 20 s late is late, not nothing
    at_most: int = 1
    overlap: Overlap = Overlap.SKIP

    def __post_init__(self) -> None:
        if not 1 <= self.at_most <= MOST_CAUGHT_UP:
            raise BadSchedule(why=f"at_most is from 1 to {MOST_CAUGHT_UP}, not {self.at_most}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """The fire times to turn into functions, how many were let go, and the next one."""

    fire: tuple[datetime, ...]
    missed: int
    next_at: datetime | None


def decide(schedule: Schedule, *, run_at: datetime, now: datetime, policy: Policy) -> Firing:
    """What to do at `now` for a cron whose next fire time is `run_at`. Nothing while `now` lies before it, also when
    the clock went back: `next_at` only ever grows, so that no fire time comes twice."""
    if now < run_at:
        return Firing(fire=(), missed=0, next_at=run_at)
    wanted = policy.at_most if policy.missed is Missed.CATCH_UP else 1
    count, last = schedule.latest(start=run_at, end=now, most=wanted)
    if policy.missed is Missed.SKIP:
        last = [moment for moment in last if now - moment <= LATE]
    latest = last[-1] if last else schedule.latest(start=run_at, end=now, most=1)[1][-1]
    return Firing(fire=tuple(last), missed=count - len(last), next_at=schedule.after(latest))


def has_missed(firing: Firing, *, now: datetime) -> bool:
    """Whether nothing ran when this was due: fire times are left out, or made up for."""
    return firing.missed > 0 or any(now - moment > LATE for moment in firing.fire)
