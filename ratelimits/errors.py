"""Refusals of the app: each class states its code, its HTTP status and, as its docstring, its sentence."""

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from core.refusal import Refusal

NEVER_S: Final = 100 * 365 * 86400


class RateLimitsError(Refusal):
    """The request to the limit is not valid."""


class InvalidConfig(RateLimitsError, ValueError, code="invalid_limit"):
    """This cannot be a rate limit: {field} is {why}."""


class InvalidCount(RateLimitsError, ValueError, code="invalid_count"):
    """A count is a finite number, 0 or more; {count} is not."""


class InvalidName(RateLimitsError, ValueError, code="invalid_name"):
    """{name!r} cannot name a limit: letters, digits, spaces inside and _ . : / - (at most 100), the first a
    letter or a digit."""


class DeclaredLimit(RateLimitsError, ValueError, code="declared_limit", http_status=409):
    """The limit {name} is declared in code and cannot be changed here: choose another name."""


class UnknownLimit(RateLimitsError, LookupError, code="unknown_limit"):
    """No limit is called {name!r}: declare it in an app's limits.py, or give its configuration with the
    call."""


class RepeatedLimit(RateLimitsError, ValueError, code="repeated_limit"):
    """The limit {name!r} is requested twice with the same key: request the sum once."""


class CountExceedsLimit(RateLimitsError, ValueError, code="count_exceeds", http_status=422):
    """This limit can never grant {count:g} at once: {most:g} is the most it ever holds."""


class LimitsDeadlocked(RateLimitsError, code="limits_deadlocked"):
    """Another transaction requested the same limits in another order, and each waited for the other: PostgreSQL ended
    this one. Request several limits with one limit_all, which locks them in one order, or run the transaction again."""


class RateLimited(RateLimitsError, code="rate_limited", http_status=429):
    """Too many requests: try again in {words}."""

    def __init__(self, *, name: str, key: str | None, retry_after: timedelta) -> None:
        """`retry_after` is how long to wait. The key stays an attribute: it may be somebody's address."""
        super().__init__(limit=name, retry_after=retry_after.total_seconds(), words=words(retry_after))
        self.name = name
        self.key = key
        self.retry_after = retry_after
        self.retry_after_s = seconds(retry_after)

    @property
    def body(self) -> Mapping[str, Any]:
        """The JSON object of the answer; `retry_after` in whole seconds, as in the header."""
        return {"error": self.code, "message": self.message, "retry_after": self.retry_after_s}


def seconds(wait: timedelta | None) -> int:
    """A wait in whole seconds, rounded up, at most a hundred years."""
    return 0 if wait is None else min(NEVER_S, math.ceil(wait.total_seconds()))


def words(wait: timedelta) -> str:
    """A wait as people say it, rounded up: "1 second", "40 seconds", "3 minutes", "2 hours", "5 days"."""
    seconds = max(1, math.ceil(wait.total_seconds()))
    for size, word in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= 2 * size:
            return f"{-(-seconds // size)} {word}s"
    return "1 second" if seconds == 1 else f"{seconds} seconds"
