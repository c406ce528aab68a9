"""What ties the processes of a cluster together: they end together, tell each other some things without a message, know
by these whether one is frozen, and have one connection each, kept for good; the dispatcher listens by another.

Each field of the memory they share has one writer and no lock, so that a process that is killed anywhere leaves
something readable behind. Times are of the machine's monotonic clock; 0: never."""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from multiprocessing.sharedctypes import RawValue
from typing import Any

import psycopg
from django.db import DatabaseError, InterfaceError, connection, connections

from postgres import configuration, connections as farm_connections
from postgres.statements import Params, Statement
from scheduling.domain.calls import Kind

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
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


class _WorkerState(ctypes.Structure):
    _fields_ = (
        ("has_taken", ctypes.c_bool),  # the work it was sent last
        ("begun", ctypes.c_int64),  # how many functions of that
        ("function", ctypes.c_int64),  # that it runs, or ran when it died; 0: none
        ("function_since", ctypes.c_double),
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


# Small tables are read as a whole, and that locks the whole table against the neighbours' writes: ten counters, 1,029
# collisions in 6,000 mutations, with this 45 (trials). A plan without any index is still found.
_READ_BY_INDEX = "-c enable_seqscan=off"
# A plan that was made while the queue was empty, and is kept, must not read the whole of it when it is full.
_NO_BITMAPS = "-c enable_bitmapscan=off"
_STOPPED_S = 600.0  # what a mutation computes between two statements takes less
_own_options: dict[str, str] = {}


def keep_connections(kind: Kind) -> None:
    """Prepare this process, before its first connection, to run functions of this kind. Between two tasks django-q2
    closes what is old: with CONN_MAX_AGE = 0 that is a new connection for each task (140 a second in place of 660)."""
    for wrapper in connections.all():
        wrapper.settings_dict["OPTIONS"] = wrapper.settings_dict["OPTIONS"] | {"pool": False}
        wrapper.settings_dict.update({"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True, "LOCK_S": inf})
    _begin_with(_READ_BY_INDEX if kind is Kind.MUTATION else "")
    if kind is Kind.MUTATION:
        configuration.bounded(connection.settings_dict, idle_s=_STOPPED_S)


def plan_by_index() -> None:
    """Prepare this process, before its first connection, to look at the queue. Who waits for a lock here shows no sign
    of life, and would be replaced with all that its workers run."""
    _begin_with(f"{_READ_BY_INDEX} {_NO_BITMAPS}")
    configuration.bounded(connection.settings_dict, lock_s=SILENT_S / 4, idle_s=SILENT_S)


def connect() -> None:
    """Open this process's connection now, so that its first function does not wait for that. It may fail, and is
    then opened when it is needed."""
    with suppress(DatabaseError, InterfaceError):
        connection.ensure_connection()


def _begin_with(parameters: str) -> None:
    """Add these to the parameters that each session begins with, unless a pooler refuses any."""
    for wrapper in connections.all():
        options = wrapper.settings_dict["OPTIONS"]
        if "options" in options:
            own = _own_options.setdefault(wrapper.alias, options["options"])
            wrapper.settings_dict["OPTIONS"] = options | {"options": f"{own} {parameters}"}


class Listener:
    """Hears the notifications of functions that are due. Belongs to one process; a lost connection is made anew."""

    def __init__(self, payloads: Collection[str]) -> None:
        self._payloads = frozenset(payloads)
        self._connection: psycopg.Connection[tuple[object, ...]] | None = None

    def listen(self) -> bool:
        """Make sure that notifications from now on are heard; True if some may have been missed before. Raises
        psycopg.Error when the database cannot be reached."""
        if self._connection is not None and not self._connection.closed:
            return False
        self._connection = farm_connections.listening(application_name="jobfarm cluster")
        self._connection.execute("LISTEN scheduling")
        return True

    def descriptors(self) -> list[int]:
        """Readable when a notification has come; none while it does not listen."""
        return [self._connection.fileno()] if self._connection and not self._connection.closed else []

    def is_notified(self) -> bool:
        """Whether a notification has come since the last time. Raises psycopg.Error when the connection is lost."""
        assert self._connection is not None
        payloads = [notify.payload for notify in self._connection.notifies(timeout=0)]
        return any(payload in self._payloads for payload in payloads)

    def ask(self, statement: Statement, params: Params) -> tuple[tuple[object, ...], bool]:
        """The one row that a statement returns, by this connection; and whether a notification came meanwhile. Raises
        psycopg.Error."""
        assert self._connection is not None
        row = self._connection.execute(statement.sql.encode(), params).fetchone()
        assert row is not None
        return row, self.is_notified()

    def close(self) -> None:
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
        self._connection = None
