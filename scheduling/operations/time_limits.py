"""How long an action may take."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from scheduling.errors import ActionTimedOut

# An action that catches the first one gets another.
_AGAIN_S = 5.0


@contextmanager
def time_limit(timeout_s: float | None, *, function: str) -> Iterator[None]:
    """Raise ActionTimedOut in the block after `timeout_s` seconds; None is no limit.

    Signals reach only the main thread, which is where a cluster's workers run; in any other thread there is no limit.
    """
    if timeout_s is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def wake(_number: int, _frame: FrameType | None) -> None:
        raise ActionTimedOut(function=function, timeout_s=timeout_s)

    before = signal.signal(signal.SIGALRM, wake)
    signal.setitimer(signal.ITIMER_REAL, timeout_s, _AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
