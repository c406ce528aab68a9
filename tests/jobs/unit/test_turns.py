"""When jobs may start that reserved tokens together: as if each had asked by itself."""

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from jobs.domain import records
from ratelimits.domain import Config, FixedWindow, State, TokenBucket
from tests.ratelimits.unit.undivided import evaluate

MINUTE = timedelta(minutes=1)
NOW = 1_700_000_012_345
CONFIGS: list[Config] = [
    TokenBucket(10, MINUTE),
    TokenBucket(7, timedelta(seconds=13), capacity=3),
    FixedWindow(10, MINUTE, start=datetime(2023, 1, 1, tzinfo=UTC)),
    FixedWindow(4, timedelta(seconds=9), capacity=20, start=datetime(2023, 1, 1, tzinfo=UTC)),
]


def one_by_one(config: Config, counts: list[float], state: State | None) -> list[float | None]:
    """The waits in seconds of as many decisions, one after the other."""
    waits = []
    for count in counts:
        decision = evaluate(config, state, now=NOW, count=count, reserve=True)
        state = decision.state
        waits.append(None if decision.retry_after is None else decision.retry_after / 1000)
    return waits


class TestWaits:
    @pytest.mark.parametrize("config", CONFIGS, ids=str)
    @given(counts=st.lists(st.integers(1, 6).map(float), min_size=1, max_size=40), debt=st.integers(0, 30))
    def test_are_those_of_one_decision_after_the_other(self, config: Config, counts: list[float], debt: int) -> None:
        start = evaluate(config, None, now=NOW, count=debt, reserve=True).state
        together = evaluate(config, start, now=NOW, count=sum(counts), reserve=True)
        assert together.ok
        assert together.state is not None
        last_s = None if together.retry_after is None else together.retry_after / 1000
        waits = records.waits_s(config, counts, remaining=together.state.value, last_s=last_s)
        alone = one_by_one(config, counts, start)
        assert [wait is None for wait in waits] == [wait is None for wait in alone]
        assert [wait or 0 for wait in waits] == pytest.approx([wait or 0 for wait in alone])


class TestJitter:
    @pytest.mark.parametrize(("wait_s", "most_s"), [(1.0, 1.1), (6.0, 6.6), (50.0, 55.0), (3600.0, 3605.0)])
    def test_is_a_tenth_of_the_wait_and_five_seconds_at_most(self, wait_s: float, most_s: float) -> None:
        rng = random.Random(7)
        drawn = [records.with_jitter(wait_s, rng=rng) for _ in range(1000)]
        assert wait_s <= min(drawn) < max(drawn) <= most_s
        assert max(drawn) - min(drawn) > 0.9 * (most_s - wait_s)
