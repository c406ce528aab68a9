"""Two numbers in, a decision out. Plain Python: the clock and the dice are arguments."""

from ratelimits.domain.algebra import Decision, State, evaluate, refilled
from ratelimits.domain.configs import Config, FixedWindow, TokenBucket
from ratelimits.domain.sharded import Spread, evaluate_shards, value_of_shards

__all__ = [
    "Config", "Decision", "FixedWindow", "Spread", "State", "TokenBucket", "evaluate", "evaluate_shards", "refilled",
    "value_of_shards",
]  # fmt: skip
