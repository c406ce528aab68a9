"""How long those who ask the database wait for it, whatever is wrong with it: `statement_timeout` is the server's own,
keepalives see nothing of a server that has frozen, and `connect_timeout` is for one host of one connection."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_LEAST_S: Final = 0.05  # what has been answered already is read
_until: ContextVar[float | None] = ContextVar("until", default=None)  # by time.monotonic()


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """In the block no wait for a connection, or for the answer to a statement, goes on when so many seconds from now
    are over: it ends with OperationalError or PoolTimeout, the connection closed. Inside another block the earlier end
    counts."""
    until = time.monotonic() + seconds
    outer = _until.get()
    token = _until.set(until if outer is None else min(outer, until))
    try:
        yield
    finally:
        _until.reset(token)


def remaining_s(at_most: float | None = None) -> float | None:
    """How long a wait that begins now may last, at most so long; None for ever."""
    until = _until.get()
    if until is None:
        return at_most
    remaining = max(until - time.monotonic(), _LEAST_S)
    return remaining if at_most is None else min(remaining, at_most)
