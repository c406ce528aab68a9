"""How the processes of a cluster connect: one connection each, kept for good; that of the dispatcher listens beside."""

from collections.abc import Collection
from contextlib import suppress
from math import inf

import psycopg
from django.db import DatabaseError, InterfaceError, connection, connections

from postgres import configuration, connections as farm_connections
from postgres.statements import Params, Statement
from scheduling.cluster.process_group import SILENT_S
from scheduling.domain.calls import Kind

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
