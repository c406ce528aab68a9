"""The backend itself, where Django looks for `DatabaseWrapper`, and psycopg's pool, made to find its way back quickly
after PostgreSQL was restarted or killed."""

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, cast

import psycopg
from django.conf import settings
from django.db import connections
from django.db.backends.base.base import NO_DB_ALIAS
from django.db.backends.postgresql import base, client, operations
from django.db.backends.postgresql.psycopg_any import get_adapters_template
from django.db.backends.utils import CursorWrapper
from psycopg_pool import ConnectionPool, PoolTimeout

from postgres import configuration, deadline, descriptors, embedded
from postgres.backend import trips, watchdog
from postgres.backend.trips import Connection, MomentLoader, WatchedConnection
from postgres.deadline import at_exit

_DRIVER = ModuleType("psycopg", "psycopg, whose connections can be watched also where there is no pool of them.")
_DRIVER.__dict__.update(psycopg.__dict__ | {"connect": WatchedConnection.connect})
get_adapters_template(True, UTC).register_loader("timestamptz", MomentLoader)


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
        is_trusted = time.monotonic() < connection.used_at + TRUSTED_S
        # Input that nobody asked for: mostly that the server closes the connection.
        if is_trusted and not descriptors.ready([connection.pgconn.socket], within_s=0):
            return
        try:
            self.check_connection(connection)
        except psycopg.Error:
            self.drain()
            raise


class PostingCursor(psycopg.ClientCursor[Any]):
    """Posts what it executes, and has no results. In a transaction it waits as any other."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> "PostingCursor":  # noqa: ARG002 (psycopg's)
        assert isinstance(self.connection, Connection)
        if not self.connection.autocommit:  # the transaction may have to be begun first
            super().execute(query, params)
        else:
            self.connection.post(self.mogrify(query, params))
        return self


class PreparedCursor:
    """A cursor whose statements go by `together`, for Django to wrap where somebody watches them. No cursor of psycopg
    prepares anything: after a ROLLBACK it would have the server forget all plans, ours too."""

    rownumber: int | None = None

    def __init__(self, connection: WatchedConnection) -> None:
        self.connection = connection
        self._rows: trips.Rows = []

    def execute(self, query: str, params: Mapping[str, Any]) -> "PreparedCursor":
        [self._rows] = trips.together(self.connection, [(query, params)])
        self.rownumber = 0
        return self

    def fetchall(self) -> trips.Rows:
        return self._rows

    def close(self) -> None:
        self._rows = []


class DatabaseOperations(operations.DatabaseOperations):
    """Django's, and it knows what a cursor of ours ran: such a cursor keeps no text with the values in it."""

    def last_executed_query(self, cursor: Any, sql: Any, params: Any) -> str:
        if not isinstance(cursor, PreparedCursor | PostingCursor):
            return super().last_executed_query(cursor, sql, params)
        try:
            return str(self.compose_sql(sql, params))
        except psycopg.Error:  # a value that has no text form: debugging must not fail what worked
            return str(sql)


class DatabaseClient(client.DatabaseClient):
    """`manage.py dbshell`: Django's, which runs the embedded server's own psql on the embedded server."""

    @classmethod
    def settings_to_cmd_args_env(
        cls, settings_dict: dict[str, Any], parameters: Iterable[str]
    ) -> tuple[list[str], dict[str, str] | None]:
        command, environment = super().settings_to_cmd_args_env(settings_dict, parameters)
        if settings_dict.get("EMBEDDED"):
            command[0] = str(embedded.bin_folder() / "psql")
        return command, environment

    def runshell(self, parameters: Iterable[str]) -> None:
        self.connection.get_connection_params()  # starts an embedded server
        super().runshell(parameters)


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's wrapper, with four things added: the embedded server is started at the first connection (never by
    settings, checks or type checkers); a server that does not answer is reported at once and with its own words, not
    with a time-out of the pool; the pool belongs to the database it was opened for, and to the process."""

    Database = _DRIVER
    client_class = DatabaseClient
    ops_class = DatabaseOperations
    _connection_pools: dict[str, Pool] = {}
    _making_pools = threading.Lock()
    _inherited: ClassVar[list[object]] = []
    # Django's own, which its stubs leave out.
    _prepare_cursor: Callable[[object], CursorWrapper]
    _configure_connection: Callable[[Connection], None]

    def get_connection_params(self, *, is_new: bool = False) -> dict[str, Any]:
        """Starts an embedded server that does not run. A pool has that done where none is free or one `is_new`: to look
        takes twenty system calls, and Django comes here for every connection that it takes."""
        pool = self._connection_pools.get(self.alias)
        is_new = is_new or pool is None or not pool.get_stats()["pool_available"]
        if is_new and (data := self.settings_dict.get("EMBEDDED")):
            embedded.ensure(Path(data))
        return configuration.hosts_ordered(super().get_connection_params())

    @property
    def pool(self) -> Pool | None:
        """The pool of this alias, for the database it names now: the test runner moves it to one of its own."""
        options = self.settings_dict["OPTIONS"].get("pool")
        if self.alias == NO_DB_ALIAS or not options:
            return None
        pool = self._connection_pools.get(self.alias)
        if pool is None or pool.database != self.settings_dict["NAME"]:
            pool = self._make_pool({} if options is True else options)
        return pool

    def get_new_connection(self, conn_params: dict[str, Any]) -> Connection:
        if self.pool and self.pool.closed:
            self._knock(conn_params)
        try:
            connection = cast("Connection", super().get_new_connection(conn_params))
        except PoolTimeout:
            self._knock(conn_params)
            raise
        if not self.pool:
            self._note_host(connection)
        if folder := self.settings_dict.pop("MARK_IN", None):  # once: it answers, so it is the right one
            embedded.write_mark(Path(folder), self.settings_dict)
        return connection

    def prepared_cursor(self) -> CursorWrapper:
        """A cursor on this connection whose statements are bound and prepared by the server (postgres.statements)."""
        return self._own_cursor(PreparedCursor)

    def together(self, statements: Sequence[trips.Statement]) -> list[trips.Rows]:
        """Run statements kept in files in one round trip (postgres.backend.trips). Raises Django's errors."""
        self.close_if_health_check_failed()
        self.ensure_connection()
        self.validate_thread_sharing()
        self.validate_no_broken_transaction()
        with self.wrap_database_errors:
            return trips.together(self.connection, statements)

    def posting_cursor(self) -> CursorWrapper:
        """A cursor whose statements are sent, and whose end nobody waits for (`Connection.post`). Without a pool
        the connection is psycopg's own, and the cursor is one that waits."""
        self.ensure_connection()
        return self._own_cursor(PostingCursor) if isinstance(self.connection, Connection) else self.cursor()

    def _own_cursor(self, kind: Callable[[Any], object]) -> CursorWrapper:
        self.close_if_health_check_failed()
        self.ensure_connection()
        with self.wrap_database_errors:
            return self._prepare_cursor(kind(self.connection))

    def _make_pool(self, options: dict[str, Any]) -> Pool:
        """Not opened yet. Of several threads that come here at once, all get the pool that was made first."""
        pool = Pool(
            database=self.settings_dict["NAME"],
            parameters=lambda: {**self.get_connection_params(is_new=True), "autocommit": True},  # Django turns it off
            configure=self._configured,
            is_checked=bool(self.settings_dict["CONN_HEALTH_CHECKS"]),
            options=options,
        )
        with self._making_pools:
            if not self._connection_pools:
                at_exit(self.close_pools)
            pool_in_use = self._connection_pools.get(self.alias)
            if pool_in_use and pool_in_use.database == pool.database:
                return pool_in_use
            self._connection_pools[self.alias] = pool
        if pool_in_use:
            pool_in_use.close()
        return pool

    def _configured(self, connection: Connection) -> None:
        self._configure_connection(connection)
        self._note_host(connection)

    def _note_host(self, connection: WatchedConnection) -> None:
        """Of several hosts the one that took this connection is tried first next time; it is watched, since it may
        freeze."""
        named, taken = self.settings_dict["HOST"], connection.info
        if "," in named:
            configuration.remember_host(named, host=taken.host, port=taken.port)
        watchdog.watch(connection, is_alone="," not in named)

    def _knock(self, parameters: Mapping[str, Any]) -> None:
        """Connect once without the pool, which would try for its whole time-out and then not say why; unless there is
        less time left than that may take."""
        within_s = float(parameters.get("connect_timeout", configuration.CONNECT_TIMEOUT_S))
        if deadline.remaining_s(within_s) == within_s:
            self.Database.connect(**self.get_connection_params(is_new=True)).close()

    @classmethod
    def close_pools(cls) -> None:
        """Close them all, and end what watches them. At the end of the process that comes before the embedded
        server is given back, so that no pool is found connecting to a server that stops."""
        while cls._connection_pools:
            _, pool = cls._connection_pools.popitem()
            pool.close()
        watchdog.stop()

    @classmethod
    def leave_to_the_parent(cls) -> None:
        """Forget, in a forked child, the connections it inherits, without a word to the server: they are sessions of
        the parent. They are kept referenced, because psycopg would warn of them when they are collected."""
        cls._inherited.append(cls._connection_pools)
        cls._connection_pools = {}
        cls._making_pools = threading.Lock()
        if not settings.configured:
            return
        for wrapper in connections.all(initialized_only=True):
            if isinstance(wrapper, cls):
                cls._inherited.append(wrapper)
                del connections[wrapper.alias]


os.register_at_fork(after_in_child=DatabaseWrapper.leave_to_the_parent)
