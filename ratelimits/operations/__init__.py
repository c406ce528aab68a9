"""Asking limits. Synchronous: from an event loop use `postgres.connections.run`.

Inside the caller's transaction whatever is taken is given back by its rollback, and the rows stay locked to
its end: ask late, and several limits by one `limit_all`. Outside of one every call is a transaction of its
own. Without the database there is no answer but an error: nothing is granted.
"""

from ratelimits.domain import Config, FixedWindow, TokenBucket
from ratelimits.errors import (
    CountExceedsLimit,
    DeclaredLimit,
    InvalidConfig,
    InvalidCount,
    InvalidName,
    RateLimited,
    RateLimitsError,
    RepeatedLimit,
    UnknownLimit,
)
from ratelimits.limits import declare
from ratelimits.operations.decisions import Answer, LimitRequest, Value, check, get_value, limit, limit_all
from ratelimits.operations.made import broken, check_new, config_from, everything, make
from ratelimits.operations.requests import config_of, stored_key
from ratelimits.operations.states import TOPIC, give_back, reset, reset_stored

__all__ = [
    "TOPIC", "Answer", "LimitRequest", "Config", "CountExceedsLimit", "DeclaredLimit", "FixedWindow", "InvalidConfig",
    "InvalidCount", "InvalidName", "RateLimited", "RateLimitsError", "RepeatedLimit", "TokenBucket", "UnknownLimit",
    "Value", "broken", "check", "check_new", "config_from", "config_of", "declare", "everything", "get_value",
    "give_back", "limit", "limit_all", "make", "reset", "reset_stored", "stored_key",
]  # fmt: skip
