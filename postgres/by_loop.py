"""Short statements by an event loop itself: what runs hundreds of times a second takes no thread each time.

To hand a statement to a thread, take a connection from the pool and give it back costs as much of the processor as the
statement, and the thread takes turns with the loop for the interpreter (docs/adr/0037). Here a loop keeps connections
of its own, in no transaction. Who finds none free, or gets no answer, goes by a thread as ever: that waits, tries again
and says what is wrong.
"""

import asyncio
import logging
from typing import Any, Final
from weakref import WeakKeyDictionary

import django.db
import psycopg

from postgres import connections
from postgres.backend import trips
from postgres.backend.trips import LoopConnection
from postgres.statements import Params, Row, Statement

logger = logging.getLogger("postgres")
NAME: Final = "jobfarm loop"  # of its sessions
MOST: Final = 2  # connections of a loop: a row that is locked holds up one
_OPEN_AGAIN_S: Final = 5.0  # after an attempt that failed; what runs meanwhile takes a thread


class NoAnswer(Exception):
    """The connection was lost, or nothing was heard for some seconds: the statement may have been run."""


async def run(statement: Statement, params: Params) -> list[Row] | None:
    """Run it, in no transaction, and return its rows; None: no connection is free. Raises NoAnswer, and Django's
    database errors where the server refuses it. Who watches statements (execute_wrapper()) does not see it."""
    line = _line()
    if (connection := line.take()) is None:
        return None
    try:
        with django.db.connections["default"].wrap_database_errors:
            return await _answered(connection, statement, params)
    finally:
        line.put_back(connection)


async def close() -> None:
    """Close this loop's connections, those in use when they come back."""
    if (line := _lines.pop(asyncio.get_running_loop(), None)) is not None:
        await line.close()


async def _answered(connection: LoopConnection, statement: Statement, params: Params) -> list[Row]:
    try:
        return await trips.by_loop(connection, (statement.sql, params))
    except psycopg.Error as error:
        if _is_idle(connection):
            raise
        raise NoAnswer from error  # `put_back` closes it


class _Line:
    """The connections of one loop. The first is opened when somebody asks, and waited for by nobody."""

    def __init__(self) -> None:
        self._free: list[LoopConnection] = []
        self._count = 0
        self._open_at = float("-inf")
        self._opening: asyncio.Task[None] | None = None
        self._is_over = False

    def take(self) -> LoopConnection | None:
        if self._free:
            return self._free.pop()
        loop = asyncio.get_running_loop()
        if self._opening is None and self._count < MOST and loop.time() >= self._open_at:
            self._opening = loop.create_task(self._open(), name="postgres: a loop's connection")
        return None

    def put_back(self, connection: LoopConnection) -> None:
        """One that is in the middle of something is closed: nobody could go on with it."""
        if self._is_over or not _is_idle(connection):
            connection.pgconn.finish()
            self._count -= 1
        else:
            self._free.append(connection)

    async def close(self) -> None:
        self._is_over = True
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        for connection in self._free:
            await connection.close()

    async def _open(self) -> None:
        try:
            connection = await _opened()
        except Exception as error:  # the threads that are taken in its place say what is wrong
            self._open_at = asyncio.get_running_loop().time() + _OPEN_AGAIN_S
            logger.debug("An event loop has no connection: %s", error)
        else:
            self._count += 1
            self.put_back(connection)
        finally:
            self._opening = None


def _is_idle(connection: LoopConnection) -> bool:
    return connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE


async def _opened() -> LoopConnection:
    where = await asyncio.to_thread(connections.conninfo)
    threshold: Any = django.db.connections["default"].settings_dict["OPTIONS"].get("prepare_threshold")
    connection = await LoopConnection.connect(
        where, autocommit=True, prepare_threshold=threshold, application_name=NAME
    )
    connections.watch(connection, where)
    return connection


def _line() -> _Line:
    return _lines.setdefault(asyncio.get_running_loop(), _Line())


_lines: "WeakKeyDictionary[asyncio.AbstractEventLoop, _Line]" = WeakKeyDictionary()
