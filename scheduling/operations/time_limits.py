import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def time_limit(within_s: float | None, error: Callable[[], BaseException], *, again_s: float = 0.0) -> Iterator[None]:
    """Raise `error()` in the block after so many seconds, and for who catches it every `again_s`; None is no limit.

    Signals reach only the main thread, which is where a cluster's workers run; in any other thread there is no limit.
    """
    if within_s is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def wake(_number: int, _frame: FrameType | None) -> None:
        raise error()

    before = signal.signal(signal.SIGALRM, wake)
    signal.setitimer(signal.ITIMER_REAL, within_s, again_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
