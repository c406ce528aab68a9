"""Waiting for work: a LISTEN connection of its own, and a wake-up pipe for workers that become free."""

import contextlib
import logging
from collections.abc import Collection

import psycopg

from postgres import connections, descriptors
from postgres.statements import Params, Statement
from scheduling.cluster.scoreboard import Scoreboard

log = logging.getLogger(__name__)


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

    def wait(self, seconds: float, *, board: Scoreboard | None = None, for_workers: bool = False) -> bool:
        """Wait for a notification, at most so long; True if there was one. The cluster's end ends it too, with False;
        `for_workers`, so does a worker that becomes free.

        Raises psycopg.Error when the connection is lost.
        """
        assert self._connection is not None
        fds = [self._connection.fileno(), *([board.stop_fd] if board else [])]
        fds += [board.wakeup_fd] if board and for_workers else []
        ready = descriptors.ready(fds, within_s=seconds)
        if board and board.wakeup_fd in ready:
            board.clear_wakeup()
        if self._connection.fileno() not in ready:
            return False
        return self._was_notified()

    def ask(self, statement: Statement, params: Params) -> tuple[tuple[object, ...], bool]:
        """The one row that a statement returns, by this connection; and whether a notification came meanwhile.

        Raises psycopg.Error.
        """
        assert self._connection is not None
        row = self._connection.execute(statement.sql.encode(), params).fetchone()
        assert row is not None
        return row, self._was_notified()

    def _was_notified(self) -> bool:
        assert self._connection is not None
        payloads = [notify.payload for notify in self._connection.notifies(timeout=0)]
        return any(payload in self._payloads for payload in payloads)

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
        self._connection = None
