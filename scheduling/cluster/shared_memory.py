"""What the processes of a cluster tell each other without a message. Each field has one writer and no lock, so that a
process that is killed anywhere leaves something readable behind. Times are of the machine's monotonic clock; 0: never.
"""

import ctypes
import time
from multiprocessing.sharedctypes import RawValue
from typing import Any

from scheduling.domain.clusters import Vitals


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
