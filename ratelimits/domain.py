"""Two numbers in, a decision out. Plain Python: the clock and the dice are arguments.

`ratelimits/migrations/0001_functions.sql` says the same to PostgreSQL; the vectors in tests/data/rate_limits hold
both to it. Products come before quotients on both sides: 6,000 ms at 10 a minute are then exactly one token,
not 0.9999999999999999.

Note [Debt is level]. As long as any shard is in debt, all shards hold the same and refill in step. So no
request finds tokens in one shard while another still owes them: nobody overtakes a reservation, and the
moment at which the debt is paid is that of an undivided limit.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, TypeAlias

from ratelimits.errors import CountExceedsLimit, InvalidConfig, InvalidCount

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
        shards: Any = self.shards
        if not isinstance(shards, int) or isinstance(shards, bool) or not 1 <= shards <= MOST_SHARDS:
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


@dataclass(frozen=True, slots=True)
class State:
    """What is stored: the tokens (below 0 is debt) at a moment, in whole milliseconds since the Unix epoch."""

    value: float
    ts: int


def possible(config: Config, *, count: float, reserve: bool) -> float:
    """The count as a float. Raises InvalidCount, and CountExceedsLimit if no state at all could grant it."""
    number = finite(count)
    most = _most_at_once(config, reserve)
    if number > most:
        raise CountExceedsLimit(count=number, most=most)
    return number


@lru_cache(maxsize=4096)
def _most_at_once(config: Config, reserve: bool) -> float:
    return min(config.most - (config.floor if reserve else 0.0), LARGEST)


def finite(count: float) -> float:
    """The count as a float. Raises InvalidCount for what is negative, infinite, or no number."""
    try:
        number = float(count)
    except (TypeError, ValueError, OverflowError):
        raise InvalidCount(count=repr(count)[:40]) from None
    if not math.isfinite(number) or number < 0:
        raise InvalidCount(count=number)
    return number


def refilled(config: Config, state: State | None, *, now: int, offset: int = 0) -> State:
    if state is None:
        return State(config.most, _first_ts(config, now, offset))
    if isinstance(config, FixedWindow):
        period = int(config.period_ms)
        windows = max((now - state.ts) // period, 0)
        return State(min(state.value + config.rate * windows, config.most), state.ts + windows * period)
    refill = max(now - state.ts, 0) * config.rate / config.period_ms
    return State(min(state.value + refill, config.most), max(now, state.ts))


def wait_ms(config: Config, remaining: State, *, now: int) -> float:
    """How long after `now` a value below 0 is back at 0, if nobody else takes anything."""
    if isinstance(config, FixedWindow):
        return remaining.ts + config.period_ms * math.ceil(-remaining.value / config.rate) - now
    return remaining.ts - now - remaining.value * config.period_ms / config.rate


def _first_ts(config: Config, now: int, offset: int) -> int:
    if not isinstance(config, FixedWindow):
        return now
    if config.start_ms is None:
        return now - offset
    period = int(config.period_ms)
    return config.start_ms + (now - config.start_ms) // period * period


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """`ok`: granted. `retry_after` in milliseconds: denied, when to ask again; granted, when the tokens that
    were reserved may be used; None: granted at once. `states`: what to store for each shard; of a denial, what was
    given."""

    ok: bool
    retry_after: float | None
    states: tuple[State | None, ...]


def evaluate(
    config: Config, states: Sequence[State | None], *, now: int, count: float = 1.0, reserve: bool = False,
    offset: int = 0,
) -> Decision:  # fmt: skip
    """Whether this limit grants `count` tokens at `now` (ms since the Unix epoch), and what each shard holds then.

    `states` has `config.shards` entries; None is a shard that was never used: full. Tokens are taken from the fullest
    shards first; `reserve` lets it go into debt, as far as `max_reserved`, and then levels all of them. `offset` (ms, 0
    up to the period) is the age of the first window where the configuration names no `start`. A clock that goes back
    takes nothing away and gives nothing twice. Raises InvalidCount, and CountExceedsLimit for a count that can never be
    granted.
    """
    count = possible(config, count=count, reserve=reserve)
    share = one_shard(config)
    full = [refilled(share, state, now=now, offset=offset) for state in states]
    remaining = math.fsum(state.value for state in full) - count
    if remaining >= -_slack(config):
        return Decision(ok=True, retry_after=None, states=_taken(full, count))
    if reserve and remaining >= config.floor:
        level = State(remaining / len(full), max(state.ts for state in full))
        wait = wait_ms(share, level, now=now)
        return Decision(ok=True, retry_after=wait, states=(level,) * len(full))
    wait = _until(config, full, count=count, now=now)
    return Decision(ok=False, retry_after=wait, states=tuple(states))


def value_of_shards(config: Config, states: Sequence[State | None], *, now: int) -> float:
    """How many tokens the whole limit holds at `now` (ms); below 0 is debt."""
    share = one_shard(config)
    return math.fsum(refilled(share, state, now=now).value for state in states)


def _slack(config: Config) -> float:
    """Seven sevenths are not always one: what a sum of shares may lack of the whole, or it would never be granted."""
    return config.most * 1e-12 if config.shards > 1 else 0.0


def _taken(full: Sequence[State], count: float) -> tuple[State, ...]:
    states = list(full)
    for shard in sorted(range(len(full)), key=lambda shard: (-full[shard].value, shard)):
        part = min(count, max(full[shard].value, 0.0))
        states[shard] = State(full[shard].value - part, full[shard].ts)
        count -= part
    return tuple(states)


def _until(config: Config, full: Sequence[State], *, count: float, now: int) -> float:
    """How long after `now` the shards together hold `count`, if nobody else takes anything.

    Shards that are full stop refilling, so the sum rises along a line that bends each time one fills up. The
    bent line lies below each of the straight ones through its pieces: the latest of their answers is its own.
    """
    if len(full) == 1:
        return wait_ms(config, State(full[0].value - count, full[0].ts), now=now)
    share = one_shard(config)
    values = sorted((state.value for state in full), reverse=True)
    periods = max(
        (count - filled * share.most - math.fsum(values[filled:])) / (len(values) - filled) / share.rate
        for filled in range(len(values))
    )
    if isinstance(share, FixedWindow):
        enough = count - _slack(config)
        return _boundary(share, full, enough=enough, windows=math.ceil(periods - 1e-9)) - now
    return max(state.ts for state in full) - now + periods * share.period_ms


def _boundary(share: FixedWindow, full: Sequence[State], *, enough: float, windows: int) -> float:
    """The moment of the edge that brings enough. Shards have edges of their own; the last one needed is the nth."""
    held = [min(state.value + share.rate * (windows - 1), share.most) for state in full]
    total = math.fsum(held)
    by_boundary = sorted(zip(full, held, strict=True), key=lambda pair: pair[0].ts)
    for state, before in by_boundary:
        total += min(before + share.rate, share.most) - before
        if total >= enough:
            return state.ts + windows * share.period_ms
    return by_boundary[-1][0].ts + windows * share.period_ms  # what rounding hides has come by the last
