"""Promises of the algebra that hold for every limit and every sequence of calls."""

import math
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise

from hypothesis import assume, example, given, settings, strategies as st

from ratelimits import domain
from ratelimits.domain import Config, FixedWindow, State, TokenBucket, one_shard, refilled, value_of_shards
from tests.ratelimits.unit.strategies import NOW, configs, shard_states
from tests.ratelimits.unit.undivided import evaluate


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """So many ms after the one before (the clock may go back), for this share of what the limit holds."""

    later_ms: int
    share: float
    reserve: bool
    draw: float
    is_pruned: bool


CALLS = st.lists(
    st.builds(
        Call,
        later_ms=st.integers(-300, 5000),
        share=st.floats(0, 1).map(lambda x: round(x, 2)),
        reserve=st.booleans(),
        draw=st.floats(0, 0.999),
        is_pruned=st.booleans(),
    ),
    min_size=1,
    max_size=40,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """`count` tokens granted, to be used at `at` (ms); reserved or at once."""

    at: float
    count: float


def play(config: Config, calls: list[Call], *, reserving: bool) -> list[Granted]:
    """What is granted, each at the moment it may be used; the limit lies in its shards, and is pruned now
    and then."""
    states: tuple[State | None, ...] = (None,) * config.shards
    now, granted = NOW, []
    for call in calls:
        now += call.later_ms
        states = _pruned(config, states, now=now) if call.is_pruned else states
        count, reserve = call.share * config.most, reserving and call.reserve
        offset = math.floor(call.draw * config.period_ms)
        spread = domain.evaluate(config, states, now=now, count=count, reserve=reserve, offset=offset)
        states = spread.states
        if spread.ok:
            granted.append(Granted(at=now + (spread.retry_after or 0), count=count))
    return granted


def _pruned(config: Config, states: tuple[State | None, ...], *, now: int) -> tuple[State | None, ...]:
    """Without the states that sql/prune.sql would forget: full now, and in windows since a period."""
    share = one_shard(config)
    then = now - int(config.period_ms) if isinstance(config, FixedWindow) else now
    return tuple(
        None if state is None or refilled(share, state, now=then).value >= share.most else state for state in states
    )


def most_within(config: Config, span_ms: float) -> float:
    """The most that any span of time may see: what was there, and what came in meanwhile."""
    if isinstance(config, FixedWindow):
        return config.most + config.rate * (math.floor(span_ms / config.period_ms) + 1)
    return config.most + config.rate * span_ms / config.period_ms


def drained_around_a_forgotten_edge() -> list[Call]:
    """Emptied just before an edge, forgotten right after it, emptied, and asked after an edge that was
    drawn anew."""
    moments = [(0, 0.0, 0.0, False), (990, 1.0, 0.0, False), (20, 1.0, 0.95, True), (60, 1.0, 0.0, False)]
    return [
        Call(later_ms=later_ms, share=share, draw=draw, is_pruned=is_pruned, reserve=False)
        for later_ms, share, draw, is_pruned in moments
    ]


@settings(max_examples=200, deadline=None)
@given(config=configs(max_shards=4), calls=CALLS, reserving=st.booleans())
@example(config=FixedWindow(10, timedelta(seconds=1)), calls=drained_around_a_forgotten_edge(), reserving=False)
def test_no_span_of_time_sees_more_than_capacity_and_what_came_in(
    config: Config, calls: list[Call], reserving: bool
) -> None:
    """Reserved tokens count at the moment they may be used. The clock is monotonic here: one that goes
    back ranges no span. A moment of today in milliseconds is a double with steps of 0.00025 ms: what comes
    in during two of them is the rounding."""
    rounding = 1e-6 + 0.0005 * config.rate / config.period_ms
    calls = [replace(call, later_ms=abs(call.later_ms)) for call in calls]
    granted = sorted(play(config, calls, reserving=reserving), key=lambda grant: grant.at)
    for first in range(len(granted)):
        total = 0.0
        for grant in granted[first:]:
            total += grant.count
            assert total <= most_within(config, grant.at - granted[first].at) + rounding


@given(config=configs(max_shards=4), calls=CALLS)
def test_reservations_are_never_overtaken(config: Config, calls: list[Call]) -> None:
    """Who asked later is not let in earlier; the clock does not go back here."""
    calls = [replace(call, later_ms=abs(call.later_ms), share=max(call.share, 0.01)) for call in calls]
    moments = [grant.at for grant in play(config, calls, reserving=True)]
    assert all(earlier <= later + 1e-6 for earlier, later in pairwise(moments))


@given(data=st.data(), config=configs(max_shards=4), shares=st.lists(st.floats(0, 1), min_size=2, max_size=6))
def test_who_wants_more_waits_longer(data: st.DataObject, config: Config, shares: list[float]) -> None:
    states = data.draw(shard_states(config))
    waits = [
        domain.evaluate(config, states, now=NOW, count=share * config.most).retry_after or 0 for share in sorted(shares)
    ]
    assert all(shorter <= longer + 1e-6 for shorter, longer in pairwise(waits))


@given(
    data=st.data(), config=configs(max_shards=4), share=st.floats(0, 1), steps=st.lists(st.integers(1, 500), max_size=8)
)
def test_the_moment_to_try_again_never_moves_away(
    data: st.DataObject, config: Config, share: float, steps: list[int]
) -> None:
    """Asked again and again while nobody else takes anything, the promised moment stays where it is."""
    states, now, promised = data.draw(shard_states(config)), NOW, math.inf
    for step in [0, *steps]:
        now += step
        spread = domain.evaluate(config, states, now=now, count=share * config.most)
        if spread.ok:
            return
        assert now + (spread.retry_after or 0) <= promised + 1e-3
        promised = now + (spread.retry_after or 0)


@given(data=st.data(), config=configs(max_shards=4), share=st.floats(0, 1).map(lambda x: round(x, 2)))
def test_who_waits_as_long_as_told_is_granted_and_not_a_millisecond_too_late(
    data: st.DataObject, config: Config, share: float
) -> None:
    states = data.draw(shard_states(config))
    count = share * config.most
    spread = domain.evaluate(config, states, now=NOW, count=count)
    assume(not spread.ok)
    then = NOW + math.ceil(spread.retry_after or 0)
    # Half a token in a million: sums of binary fractions may miss the very moment by their last bit.
    assert value_of_shards(config, states, now=then) >= count - 5e-7
    assert value_of_shards(config, states, now=max(NOW, then - 2)) < count


@given(config=configs(), value=st.floats(-50, 80), ago=st.integers(0, 10_000), back=st.integers(0, 10_000))
def test_a_clock_that_goes_back_takes_nothing(config: Config, value: float, ago: int, back: int) -> None:
    state = State(min(value, config.most), NOW - ago)
    there = refilled(config, state, now=NOW - ago)
    assert refilled(config, state, now=NOW - ago - back) == there


@given(data=st.data(), config=configs(max_shards=6), share=st.floats(0, 1), reserve=st.booleans())
def test_shards_lose_and_make_no_tokens(data: st.DataObject, config: Config, share: float, reserve: bool) -> None:
    states = data.draw(shard_states(config))
    before = value_of_shards(config, states, now=NOW)
    spread = domain.evaluate(config, states, now=NOW, count=share * config.most, reserve=reserve)
    after = value_of_shards(config, spread.states, now=NOW)
    taken = share * config.most if spread.ok else 0
    assert abs(before - taken - after) <= 1e-6 * max(1, abs(before))


@given(config=configs(), share=st.floats(0, 1), reserve=st.booleans(), value=st.floats(-50, 80))
def test_one_shard_is_an_undivided_limit(config: Config, share: float, reserve: bool, value: float) -> None:
    state, count = State(min(value, config.most), NOW - 1234), share * config.most
    whole = evaluate(config, state, now=NOW, count=count, reserve=reserve)
    spread = domain.evaluate(config, [state], now=NOW, count=count, reserve=reserve)
    assert (spread.ok, spread.states[0] == whole.state) == (whole.ok, True) or _differ_in_a_bit(whole, spread)
    assert (spread.retry_after is None) == (whole.retry_after is None)


def _differ_in_a_bit(whole: object, spread: object) -> bool:
    ours, theirs = whole.state, spread.states[0]  # type: ignore[attr-defined]
    return ours.ts == theirs.ts and math.isclose(ours.value, theirs.value, abs_tol=1e-9)


@given(rate=st.integers(1, 1000), token_ms=st.integers(1, 3_600_000), share=st.floats(0, 1))
def test_whole_tokens_come_in_at_whole_moments(rate: int, token_ms: int, share: float) -> None:
    """Rounding never costs a token: after exactly the time of n tokens there are n."""
    config = TokenBucket(rate, timedelta(milliseconds=rate * token_ms))
    n = max(1, round(share * rate))
    assert evaluate(config, State(0, NOW), now=NOW + n * token_ms, count=n).ok
