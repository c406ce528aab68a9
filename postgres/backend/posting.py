"""A connection that can send a statement and fetch its outcome later: for what nobody has to wait for."""

import itertools
import logging
import time
from collections.abc import Generator
from typing import Any, Final

import psycopg
from psycopg import generators, waiting
from psycopg.abc import PQGen
from psycopg.pq import ExecStatus

from postgres import deadline

logger = logging.getLogger("postgres")
LOOK_EVERY_S: Final = 0.1  # psycopg's: whether a signal came


class DeadlinePassed(psycopg.OperationalError):
    """PostgreSQL's answer timed out: whoever asked waits no longer."""

    def __init__(self) -> None:
        super().__init__("the answer timed out")


class Planned:
    """What a connection knows of the plans that its server keeps for it (postgres.backend.trips)."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.plans: dict[tuple[bytes, tuple[int, ...]], bytes] = {}
        """The names of plans, by text and types of parameters. Statements are kept in files: they are few."""
        self._plan_numbers = itertools.count(1)

    def next_plan(self) -> bytes:
        """A name for a plan that no other has, not one that could not be made either."""
        return f"farm_{next(self._plan_numbers)}".encode()


class LoopConnection(Planned, psycopg.AsyncConnection[Any]):
    """psycopg's for event loops, for statements kept in files (postgres.by_loop)."""


class WatchedConnection(Planned, psycopg.Connection[Any]):
    """psycopg's, and it shows since when it waits (postgres.backend.watchdog)."""

    waiting_since = float("inf")  # by time.monotonic()

    def wait(self, gen: PQGen[Any], interval: float = LOOK_EVERY_S, timeout: float | None = None) -> Any:
        """As psycopg's; within the deadline of this thread, if it has one (postgres.deadline)."""
        self.waiting_since = since = time.monotonic()
        within_s = deadline.remaining_s(timeout)
        try:
            return super().wait(gen, interval, within_s)
        except psycopg.OperationalError:
            if within_s is None or within_s == timeout or time.monotonic() < since + within_s:
                raise
            self.close()  # in the middle of an answer that may still come
            raise DeadlinePassed from None
        finally:
            self.waiting_since = float("inf")


class Connection(WatchedConnection):
    """psycopg's, with `post`. Whatever is done with it next fetches the outcome first.

    psycopg leads everything that talks to the server through `wait`; the pool is the only one that looks at the
    connection's state without it, and calls `settle` before it does (docs/adr/0037).
    """

    used_at = float("-inf")  # when the pool got it back, by time.monotonic()
    _owes = False

    def post(self, statement: str) -> None:
        """Send a statement, or several, without parameters. A failure is logged. It is for connections outside of a
        transaction. Raises OperationalError when the connection is lost."""
        with self.lock:
            self.wait(self._post(statement.encode()))

    def settle(self) -> None:
        """Fetch the outcome that is still owed, if there is one. Raises nothing: what is lost is found lost later."""
        if self._owes:
            self._owes = False
            try:
                for result in super().wait(generators.fetch_many(self.pgconn)):
                    if result.status == ExecStatus.FATAL_ERROR:
                        _log_failure(result.get_error_message())
            except psycopg.Error as error:
                _log_failure(str(error))

    def wait(self, gen: PQGen[Any], interval: float = LOOK_EVERY_S, timeout: float | None = None) -> Any:
        self.settle()
        return super().wait(gen, interval, timeout)

    def _post(self, statement: bytes) -> Generator[waiting.Wait, waiting.Ready | int, None]:
        self.pgconn.send_query(statement)
        self._owes = True
        while self.pgconn.flush():
            yield waiting.Wait.RW


class PostingCursor(psycopg.ClientCursor[Any]):
    """Posts what it executes, and has no results. In a transaction it waits as any other."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> "PostingCursor":  # noqa: ARG002 (psycopg's)
        assert isinstance(self.connection, Connection)
        if not self.connection.autocommit:  # the transaction may have to be begun first
            super().execute(query, params)
        else:
            self.connection.post(self.mogrify(query, params))
        return self


def _log_failure(why: str) -> None:
    logger.warning("A statement that nobody waited for failed: %s", why.partition("\n")[0])
