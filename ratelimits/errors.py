"""Refusals of the app. A class's docstring is its message, `code` is the machine's word for it."""

import math
from datetime import timedelta
from typing import Any, ClassVar


class RateLimitsError(Exception):
    """The limit cannot be asked that."""

    code: ClassVar[str] = "refused"

    def __init__(self, **numbers: Any) -> None:
        self.numbers = numbers
        super().__init__(self.message)

    @property
    def message(self) -> str:
        """The sentence for people: the class's docstring, with this refusal's numbers filled in."""
        return " ".join((type(self).__doc__ or "").split()).format(**self.numbers)


class InvalidConfig(RateLimitsError, ValueError):
    """This cannot be a rate limit: {field} is {why}."""

    code = "invalid_limit"


class InvalidCount(RateLimitsError, ValueError):
    """A count is a finite number and not negative; {count} is none."""

    code = "invalid_count"


class InvalidName(RateLimitsError, ValueError):
    """{name!r} cannot name a limit: letters, digits, spaces inside and _ . : / - (at most 100), the first a
    letter or a digit."""

    code = "invalid_name"


class UnknownLimit(RateLimitsError, LookupError):
    """No limit is called {name!r}: declare it in an app's limits.py, or give its configuration with the
    call."""

    code = "unknown_limit"


class RepeatedLimit(RateLimitsError, ValueError):
    """The limit {name!r} is asked twice with the same key: ask once, for the sum."""

    code = "repeated_limit"


class CountExceedsLimit(RateLimitsError, ValueError):
    """This limit can never grant {count:g} at once: {most:g} is the most it ever holds."""

    code = "count_exceeds"

    def __init__(self, *, count: float, most: float) -> None:
        self.count = count
        self.most = most
        super().__init__(count=count, most=most)


class LimitsDeadlocked(RateLimitsError):
    """Another transaction asked the same limits in another order, and each waited for the other: PostgreSQL ended this
    one. LimitRequest several limits with one limit_all, which locks them in one order, or run the transaction again."""

    code = "limits_deadlocked"


class RateLimited(RateLimitsError):
    """Too many requests: try again in {words}."""

    code = "rate_limited"

    def __init__(self, *, name: str, key: str | None, retry_after: timedelta) -> None:
        """`retry_after` is how long to wait. The key stays an attribute: it may be somebody's address."""
        self.name = name
        self.key = key
        self.retry_after = retry_after
        super().__init__(limit=name, retry_after=retry_after.total_seconds(), words=words(retry_after))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rate_limited, (self.name, self.key, self.retry_after)


def words(wait: timedelta) -> str:
    """A wait as people say it, rounded up: "1 second", "40 seconds", "3 minutes", "2 hours", "5 days"."""
    seconds = max(1, math.ceil(wait.total_seconds()))
    for size, word in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= 2 * size:
            return f"{-(-seconds // size)} {word}s"
    return "1 second" if seconds == 1 else f"{seconds} seconds"


def _rate_limited(name: str, key: str | None, retry_after: timedelta) -> RateLimited:
    return RateLimited(name=name, key=key, retry_after=retry_after)
