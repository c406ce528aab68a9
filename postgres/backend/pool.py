"""psycopg's pool, made to find its way back quickly after PostgreSQL was restarted or killed."""

import time
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool

from postgres import deadline, descriptors
from postgres.backend.posting import Connection

# After this long a failed attempt is given up, so that the next request begins with a new one. psycopg's own
# 300 s let the pauses between attempts grow to minutes, and whoever asks for a connection waits for the
# attempt that is under way.
RECONNECT_S = 5.0

# A connection that was used within this is not checked with a round trip, but only polled: the kernel says at once when
# the server has closed it, and notices a server that vanished within 25 s (postgres.configuration.KEEPALIVE).
TRUSTED_S = 60.0


class Pool(ConnectionPool[Connection]):
    """The connections of one process to one database.

    `parameters` is called for each new connection, also by the pool's own threads: that starts an embedded
    server that was killed. `options` are OPTIONS["pool"] of the settings; `is_checked` has every connection
    tried before it is handed out."""

    def __init__(
        self, *, database: str | None, parameters: Callable[[], dict[str, Any]],
        configure: Callable[[Connection], None], is_checked: bool, options: dict[str, Any],
    ) -> None:  # fmt: skip
        self.database = database
        super().__init__(
            connection_class=Connection, kwargs=parameters, open=False, configure=configure,
            check=self._check_or_drain if is_checked else None, **{"reconnect_timeout": RECONNECT_S, **options},
        )  # fmt: skip

    def getconn(self, timeout: float | None = None) -> Connection:
        """As psycopg's; within the deadline of this thread."""
        return super().getconn(deadline.remaining_s(self.timeout if timeout is None else timeout))

    def putconn(self, connection: Connection) -> None:
        """Take one back, with its last statement at its end: the next who gets it owes nothing for it."""
        connection.settle()
        connection.used_at = time.monotonic()
        super().putconn(connection)

    def _check_or_drain(self, connection: Connection) -> None:
        """If this one is broken, so are the others that lay idle: without this, each would cost a request a
        longer wait (0 s, 1 s, 2 s, 4 s ...) until a good one is met."""
        if time.monotonic() < connection.used_at + TRUSTED_S and not _has_unread_input(connection):
            return
        try:
            self.check_connection(connection)
        except psycopg.Error:
            self.drain()
            raise


def _has_unread_input(connection: Connection) -> bool:
    """Whether the server has sent something unrequested: mostly that it closes the connection."""
    return bool(descriptors.ready([connection.pgconn.socket], within_s=0))
