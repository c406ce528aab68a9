"""How this process ends: what is to be done before, and that it does."""

import atexit
import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.util import Finalize


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
