"""Connections for those who are not Django's request cycle: threads, event loops, and libpq itself (LISTEN)."""

import asyncio
import contextvars
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from typing import ParamSpec, TypeVar, cast

import django.db
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from postgres import configuration
from postgres.backend import watchdog
from postgres.backend.base import DatabaseWrapper
from postgres.backend.trips import WatchedConnection

T = TypeVar("T")
P = ParamSpec("P")

# What Django adds to the parameters of libpq for psycopg's own use.
_NOT_LIBPQ = frozenset({"autocommit", "context", "cursor_factory", "prepare_threshold", "row_factory"})


def conninfo(using: str = "default") -> str:
    """The libpq connection string of the database that Django uses now (in tests: the test database).

    It may hold the password: never print it. Starts the embedded server if that is the one in use; that may
    take a second, so from an event loop call it through `run`."""
    parameters = cast("DatabaseWrapper", django.db.connections[using]).get_connection_params(is_new=True)
    return make_conninfo(**{name: value for name, value in parameters.items() if name not in _NOT_LIBPQ})


def direct_conninfo(using: str = "default") -> str:
    """Like `conninfo`, but past a pooler: the server of DATABASE_DIRECT_URL, if that is set. LISTEN needs it. Raises
    InvalidDatabaseUrl."""
    url = os.environ.get("DATABASE_DIRECT_URL")
    if not url:
        return conninfo(using)
    direct = configuration.parse(url, variable="DATABASE_DIRECT_URL")
    current, pooled = django.db.connections[using].settings_dict["NAME"], os.environ.get("DATABASE_URL")
    if not pooled or current != configuration.parse(pooled)["dbname"]:  # tests' own; else only the pooler calls it so
        direct["dbname"] = current
    bounds = {"connect_timeout": configuration.CONNECT_TIMEOUT_S, **configuration.KEEPALIVE}
    return make_conninfo(**{**bounds, **configuration.hosts_ordered(direct)})


def listening(*, application_name: str) -> WatchedConnection:
    """A connection of the caller's own for LISTEN, past a pooler, without transactions; its waits end when the server
    freezes.

    Raises psycopg.Error when the database cannot be reached, and InvalidDatabaseUrl."""
    where = direct_conninfo()
    connection = WatchedConnection.connect(where, autocommit=True, application_name=application_name)
    watch(connection, where)
    return connection


def watch(connection: watchdog.Watchable, conninfo: str) -> None:
    """End this connection when its server is found frozen: soon where several hosts are named."""
    watchdog.watch(connection, is_alone="," not in str(conninfo_to_dict(conninfo).get("host") or ""))


@contextmanager
def released() -> Iterator[None]:
    """Give this thread's connections back to the pool at the end of the block, or of the function it decorates.

    For work in threads that no request ends: without it, each would keep a connection for as long as it lives. A
    connection inside a transaction is left alone; whoever opened that transaction ends it."""
    try:
        yield
    finally:
        for connection in django.db.connections.all(initialized_only=True):
            if not connection.in_atomic_block:
                connection.close()


def close_before_fork() -> None:
    """Close every connection of this thread, and the process's pools with their threads: a fork shares neither."""
    django.db.connections.close_all()
    DatabaseWrapper.close_pools()


async def run(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function` in one of a few threads kept for the database, and give its connection back afterwards.

    For event loops. When all threads are busy (4, or JOBFARM_DB_THREADS) it waits for one. Whoever cancels
    the call stops waiting; the function itself runs to its end."""
    return await run_in(None, function, *args, **kwargs)


async def run_in(
    threads: ThreadPoolExecutor | None, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> T:
    """`run` in these threads, for what may take long; in its own where None are named."""
    context = contextvars.copy_context()  # log lines of the thread are about what the caller is about
    work = partial(context.run, released()(function), *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(threads or _threads(), work)


def threads() -> int:
    return int(getattr(settings, "DATABASE_THREADS", configuration.THREADS))


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=threads(), thread_name_prefix="jobfarm-database")


# Threads do not survive a fork; the child makes its own.
os.register_at_fork(after_in_child=_threads.cache_clear)
