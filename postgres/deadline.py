"""How long those who ask the database wait for it, whatever is wrong with it: `statement_timeout` is the server's own,
keepalives see nothing of a server that has frozen, and `connect_timeout` is for one host of one connection. And how
this process ends: what is to be done before, and that it does."""

import atexit
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from multiprocessing.util import Finalize
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


def at_exit(function: Callable[[], None]) -> None:
    """Call `function` when this process ends by itself; what was registered last is called first. atexit, but in a
    child of multiprocessing too, which ends without it. Not after a signal that kills."""
    if multiprocessing.parent_process() is None:
        atexit.register(function)
    else:
        Finalize(None, function, exitpriority=0)


def end_within(seconds: float) -> None:
    """This process ends in so many seconds at the latest, with exit code 1, whatever it or a thread of it waits for: a
    database that has frozen answers nobody, and what ends by itself until then ends as it would have.

    For the main thread, in a signal's handler too.
    """
    signal.signal(signal.SIGALRM, _end)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _end(_number: int, _frame: object) -> None:
    os.write(2, b"What this process waits for did not come to its end in time: it ends without.\n")
    os._exit(1)
