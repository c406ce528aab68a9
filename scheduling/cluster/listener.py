"""Waiting for work: a LISTEN connection of its own."""

import contextlib
from collections.abc import Collection

import psycopg

from postgres import connections
from postgres.statements import Params, Statement


class Listener:
    """Hears the notifications of functions that are due. Belongs to one process; a lost connection is made anew."""

    def __init__(self, payloads: Collection[str]) -> None:
        self._payloads = frozenset(payloads)
        self._connection: psycopg.Connection[tuple[object, ...]] | None = None

    def listen(self) -> bool:
        """Make sure that notifications from now on are heard; True if some may have been missed before.

        Raises psycopg.Error when the database cannot be reached.
        """
        if self._connection is not None and not self._connection.closed:
            return False
        self._connection = connections.listening(application_name="jobfarm cluster")
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
        """The one row that a statement returns, by this connection; and whether a notification came meanwhile.

        Raises psycopg.Error.
        """
        assert self._connection is not None
        row = self._connection.execute(statement.sql.encode(), params).fetchone()
        assert row is not None
        return row, self.is_notified()

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
        self._connection = None
