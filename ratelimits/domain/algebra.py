"""The algebra of one row: what it holds now, and whether it grants.

`ratelimits/migrations/0001_functions.sql` says the same to PostgreSQL; the vectors in tests/data/rate_limits hold
both to it. Products come before quotients on both sides: 6,000 ms at 10 a minute are then exactly one token,
not 0.9999999999999999.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from ratelimits.domain.configs import LARGEST, Config, FixedWindow
from ratelimits.errors import CountExceedsLimit, InvalidCount


@dataclass(frozen=True, slots=True)
class State:
    """What is stored: the tokens (below 0 is debt) at a moment, in whole milliseconds since the Unix epoch."""

    value: float
    ts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """`ok`: granted. `retry_after` in milliseconds: denied, when to ask again; granted, when the tokens that
    were reserved may be used; None: granted at once. `state`: what to store; of a denial, what was given."""

    ok: bool
    retry_after: float | None
    state: State | None


def evaluate(
    config: Config, state: State | None, *, now: int, count: float = 1.0, reserve: bool = False, offset: int = 0
) -> Decision:
    """Whether this limit grants `count` tokens at `now` (ms since the Unix epoch), and what is left then.

    `state` None is a limit that was never used: full. `reserve` lets it go into debt, as far as `max_reserved`.
    `offset` (ms, 0 up to the period) is the age of the first window where the configuration names no `start`. A clock
    that goes back takes nothing away and gives nothing twice. `config.shards` is left to `evaluate_shards`. Raises
    InvalidCount, and CountExceedsLimit for a count that can never be granted.
    """
    count = possible(config, count=count, reserve=reserve)
    full = refilled(config, state, now=now, offset=offset)
    remaining = State(full.value - count, full.ts)
    if remaining.value >= 0:
        return Decision(ok=True, retry_after=None, state=remaining)
    ok = reserve and remaining.value >= config.floor
    return Decision(ok=ok, retry_after=wait_ms(config, remaining, now=now), state=remaining if ok else state)


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
    """The state with everything added that came in by `now`."""
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
