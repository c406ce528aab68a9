"""What ties the processes of a cluster together: they end together, tell each other some things without a message, and
know by these whether one is frozen.

Each field of the memory they share has one writer and no lock, so that a process that is killed anywhere leaves
something readable behind. Times are of the machine's monotonic clock; 0: never."""

import contextlib
import ctypes
import os
import signal
import sys
import time
from dataclasses import dataclass
from multiprocessing.sharedctypes import RawValue
from typing import Any

SILENT_S = 8.0  # a dispatcher shows that it lives once a second
OVERDUE_S = 3.0  # for so long the same picture must hold; one slow moment of the machine is no freeze
STARTING_S = 60.0  # Python, Django and the first connection, on a busy machine
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


class _WorkerState(ctypes.Structure):
    _fields_ = (
        ("has_taken", ctypes.c_bool),  # the work it was sent last
        ("begun", ctypes.c_int64),  # how many functions of that
        ("mutation", ctypes.c_int64),  # that it runs, or ran when it died; 0: none
        ("mutation_since", ctypes.c_double),
        ("deadline", ctypes.c_double),  # of the action that it runs
    )


class _DispatcherState(ctypes.Structure):
    _fields_ = (("seen_at", ctypes.c_double), ("overdue_since", ctypes.c_double))


def worker_state() -> Any:
    """What a worker does right now; it writes, its dispatcher reads. Made before the worker is forked."""
    return RawValue(_WorkerState)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """What a dispatcher shows of itself at one moment.

    `silent_s`: since its last sign of life, None if there was none yet. `overdue_s`: for how long it has known of a
    function that it should have dispatched seconds ago, while a worker was free and none was dispatched. Two long
    actions on two workers hold everything up, and nothing is wrong.
    """

    silent_s: float | None
    overdue_s: float = 0.0


class Pulse:
    """That the dispatcher is at work, for its supervisor. Made before the dispatcher is forked."""

    def __init__(self) -> None:
        self._state: Any = RawValue(_DispatcherState)

    def beat(self) -> None:
        self._state.seen_at = time.monotonic()

    def note_overdue(self, *, is_overdue: bool) -> None:
        """Whether a function should have been dispatched seconds ago, although a worker is free."""
        since = self._state.overdue_since or time.monotonic()
        self._state.overdue_since = since if is_overdue else 0.0

    @property
    def is_overdue(self) -> bool:
        return bool(self._state.overdue_since)

    def vitals(self) -> Vitals:
        now = time.monotonic()
        seen_at, overdue_since = self._state.seen_at, self._state.overdue_since
        return Vitals(
            silent_s=now - seen_at if seen_at else None, overdue_s=now - overdue_since if overdue_since else 0.0
        )


def why_frozen(vitals: Vitals, *, age_s: float) -> str | None:
    """Why a cluster that has been watched for so long is frozen, as the end of a sentence, or None."""
    if vitals.silent_s is None:
        return "it never began to work" if age_s > STARTING_S else None
    if min(vitals.silent_s, age_s) > SILENT_S:
        return f"it has shown no sign of life for {vitals.silent_s:.0f} s"
    if min(vitals.overdue_s, age_s) > OVERDUE_S:
        return "a dispatch is overdue while a worker is free"
    return None
