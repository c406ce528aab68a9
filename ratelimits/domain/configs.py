"""The two kinds of limit, and what makes one possible."""

import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from ratelimits.errors import InvalidConfig

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
LARGEST = 1e15  # above it doubles cannot count single tokens; and PostgreSQL raises where a product overflows
SMALLEST_RATE = 1e-12
MOST_SHARDS = 1024  # a read of the whole limit looks at that many rows; more would help nobody


@dataclass(frozen=True, slots=True)
class _Limit:
    rate: float
    period: timedelta
    capacity: float | None = None
    max_reserved: float | None = None
    shards: int = 1

    def __post_init__(self) -> None:
        _require_number("rate", self.rate, positive=True)
        period: Any = self.period
        if not isinstance(period, timedelta) or period <= timedelta(0):
            raise InvalidConfig(field="period", why=f"not a positive timedelta: {self.period!r}")
        for field in ("capacity", "max_reserved"):
            if (number := getattr(self, field)) is not None:
                _require_number(field, number, positive=False)
        if not _is_whole(self.shards) or not 1 <= self.shards <= MOST_SHARDS:
            raise InvalidConfig(field="shards", why=f"not a whole number from 1 to {MOST_SHARDS}: {self.shards!r}")

    @property
    def most(self) -> float:
        """The most tokens it ever holds: the capacity, or the rate where none is given. 0 counts as given."""
        return float(self.rate if self.capacity is None else self.capacity)

    @property
    def floor(self) -> float:
        """How far into debt a reservation may take it: a number not above 0, or minus infinity."""
        return -math.inf if self.max_reserved is None else 0.0 - self.max_reserved

    @property
    def period_ms(self) -> float:
        return self.period / MILLISECOND


@dataclass(frozen=True, slots=True)
class TokenBucket(_Limit):
    """`rate` tokens come in every `period`, evenly, until there are `capacity` (default: `rate`) of them.

    `max_reserved` bounds the debt of reservations; None is no bound, 0 is no debt. `shards` is over how many
    rows the tokens are spread. Raises InvalidConfig for what cannot be.
    """


@dataclass(frozen=True, slots=True)
class FixedWindow(_Limit):
    """`rate` tokens come in at once at the edge of every window of `period`, until there are `capacity` of them.

    `start` (aware) is an edge of some window, past or future; without it the first use draws where the windows lie, so
    that not all keys fill up at the same moment. The rest is as for TokenBucket. Edges are exact: the period is a whole
    number of milliseconds. Raises InvalidConfig.
    """

    start: datetime | None = None

    def __post_init__(self) -> None:
        super(FixedWindow, self).__post_init__()  # slots=True makes another class than this name's cell
        if self.period % MILLISECOND:
            raise InvalidConfig(field="period", why=f"not a whole number of milliseconds: {self.period!r}")
        start: Any = self.start
        if start is not None and (not isinstance(start, datetime) or start.tzinfo is None):
            raise InvalidConfig(field="start", why=f"not a datetime with a time zone: {start!r}")

    @property
    def start_ms(self) -> int | None:
        """`start` in whole milliseconds since the Unix epoch."""
        return None if self.start is None else (self.start - EPOCH) // MILLISECOND


Config: TypeAlias = TokenBucket | FixedWindow


def one_shard(config: Config) -> Config:
    """What each of its shards is: the same periods, a share of the tokens."""
    if config.shards == 1:
        return config
    n = config.shards
    capacity = None if config.capacity is None else config.capacity / n
    max_reserved = None if config.max_reserved is None else config.max_reserved / n
    return replace(config, rate=config.rate / n, capacity=capacity, max_reserved=max_reserved, shards=1)


def _require_number(field: str, number: Any, *, positive: bool) -> None:
    least = SMALLEST_RATE if positive else 0
    is_good = isinstance(number, int | float) and not isinstance(number, bool) and least <= number <= LARGEST
    if not is_good:
        raise InvalidConfig(field=field, why=f"not a number from {least:g} to {LARGEST:g}: {number!r:.60}")


def _is_whole(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)
