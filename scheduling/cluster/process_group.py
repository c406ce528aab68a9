"""Processes that end with their parent."""

import contextlib
import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def end_with(parent: int, *, by: signal.Signals) -> None:
    """Let the kernel send this process `by` when its parent dies; at once, if that has happened.

    Linux only. Elsewhere whoever loops looks at `is_orphan` now and then.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, by)
    if is_orphan(parent):
        os.kill(os.getpid(), by)


def is_orphan(parent: int) -> bool:
    """Whether this process is no child of `parent` any more."""
    return os.getppid() != parent


def kill_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
