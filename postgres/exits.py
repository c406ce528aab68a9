"""Something to do when this process ends."""

import atexit
import multiprocessing
from collections.abc import Callable
from multiprocessing.util import Finalize


def at_exit(function: Callable[[], None]) -> None:
    """Call `function` when this process ends by itself; what was registered last is called first.

    atexit, but in a child of multiprocessing too, which ends without it. Not after a signal that kills.
    """
    if multiprocessing.parent_process() is None:
        atexit.register(function)
    else:
        Finalize(None, function, exitpriority=0)
