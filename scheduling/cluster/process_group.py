import contextlib
import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_LIBRARY = ctypes.CDLL(None, use_errno=True)


def end_with(parent: int, *, by: signal.Signals) -> None:
    """Let the kernel send this process `by` when its parent dies; end at once, if that has happened. Linux only.
    Elsewhere whoever loops looks at `is_orphan` now and then, and the note of a farm names its children."""
    if sys.platform == "linux":
        _LIBRARY.prctl(_PR_SET_PDEATHSIG, by)
    if is_orphan(parent):
        os._exit(1)


def is_orphan(parent: int) -> bool:
    return os.getppid() != parent


def kill_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
