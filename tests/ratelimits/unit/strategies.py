"""Limits and states as hypothesis draws them."""

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from ratelimits.domain import EPOCH, Config, FixedWindow, State, TokenBucket, one_shard

NOW = 1_735_000_000_123


@st.composite
def configs(draw: st.DrawFn, *, max_shards: int = 1) -> Config:
    """Any limit of 0.5 to 50 tokens a period of 10 ms to 100 s."""
    common: dict[str, Any] = {
        "rate": draw(st.sampled_from([0.5, 1, 2, 3, 7, 10, 50])),
        "period": timedelta(milliseconds=draw(st.sampled_from([10, 333, 1000, 60_000, 100_000]))),
        "capacity": draw(st.sampled_from([None, 1, 2.5, 10, 80])),
        "max_reserved": draw(st.sampled_from([None, 0, 2, 30])),
        "shards": draw(st.integers(1, max_shards)),
    }
    if draw(st.booleans()):
        return TokenBucket(**common)
    start = draw(st.sampled_from([None, EPOCH, EPOCH + timedelta(milliseconds=NOW + 12_345)]))
    return FixedWindow(**common, start=start)


def shard_states(config: Config) -> st.SearchStrategy[list[State | None]]:
    """A state, or none, for each shard: in debt or not, its moment up to two periods ago."""
    most = one_shard(config).most
    age = int(config.period_ms * 2)
    state = st.builds(State, st.floats(-3 * most, most).map(lambda value: round(value, 3)), st.integers(NOW - age, NOW))
    return st.lists(st.none() | state, min_size=config.shards, max_size=config.shards)
