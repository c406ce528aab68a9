"""What limits are asked, and what they answer: seconds and datetimes outside, milliseconds inside."""

import math
from dataclasses import dataclass
from datetime import timedelta

from ratelimits import queries
from ratelimits.domain import Config
from ratelimits.errors import RateLimited


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A limit's answer.

    `ok`: granted. `retry_after`: denied, how long until it would be granted if nobody else came; granted, how
    long until the tokens that were reserved may be used; None: granted at once. `remaining`: tokens left,
    below 0 is debt; with shards an estimate; None where nothing was taken.
    """

    ok: bool
    retry_after: timedelta | None
    remaining: float | None = None

    def __bool__(self) -> bool:
        """Whether it was granted."""
        return self.ok


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRequest:
    """One of several limits to ask together; the fields are the arguments of `limit`."""

    name: str
    key: str | None = None
    count: float = 1.0
    reserve: bool = False
    config: Config | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """How many tokens a limit holds now (below 0 is debt), and the most it can hold."""

    value: float
    most: float
    config: Config


def answer(row: queries.Row) -> Answer:
    """The answer that a row of `take` or `take_all` says."""
    remaining = row.remaining if row.granted else None
    return Answer(ok=row.granted, retry_after=wait(row.retry_after_ms), remaining=remaining)


def wait(milliseconds: float | None) -> timedelta | None:
    """Rounded up to what the limits' clock can tell apart. A wait longer than any calendar is told as the
    longest."""
    if milliseconds is None:
        return None
    try:
        return timedelta(milliseconds=max(0, math.ceil(milliseconds)))
    except OverflowError:
        return timedelta.max


def or_raised(answer: Answer, name: str, key: str | None) -> Answer:
    """The answer if it is a grant. Raises RateLimited."""
    if not answer.ok:
        raise RateLimited(name=name, key=key, retry_after=answer.retry_after or timedelta(0))
    return answer
