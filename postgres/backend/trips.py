"""What a connection of the farm does beside psycopg's: it bounds each wait, posts what nobody waits for, and runs the
statements that are kept in files. Their values are bound, they are sent and answered together in one round trip, and
the BEGIN of their transaction goes with them (docs/adr/0037).

psycopg's pipeline mode does that for cursors and costs as much of the processor as a round trip for each. Here is what
a statement kept in a file needs of libpq's: its parameters bound, its plan kept, its rows as named tuples.
"""

import itertools
import logging
import re
import time
from collections import namedtuple
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

import psycopg
from psycopg import abc, errors, generators, waiting
from psycopg.adapt import AdaptersMap, PyFormat, Transformer
from psycopg.pq import ExecStatus, PipelineStatus, TransactionStatus
from psycopg.types.array import ListBinaryDumper
from psycopg.types.datetime import TimestamptzLoader
from psycopg.types.json import JsonbLoader
from psycopg.types.numeric import Int8Dumper

from postgres import deadline

logger = logging.getLogger("postgres")
LOOK_EVERY_S: Final = 0.1  # psycopg's: whether a signal came


class DeadlinePassed(psycopg.OperationalError):
    """PostgreSQL's answer timed out: whoever asked waits no longer."""

    def __init__(self) -> None:
        super().__init__("the answer timed out")


class Planned:
    """What a connection knows of the plans that its server keeps for it (`together`)."""

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

    def wait(self, gen: abc.PQGen[Any], interval: float = LOOK_EVERY_S, timeout: float | None = None) -> Any:
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

    def wait(self, gen: abc.PQGen[Any], interval: float = LOOK_EVERY_S, timeout: float | None = None) -> Any:
        self.settle()
        return super().wait(gen, interval, timeout)

    def _post(self, statement: bytes) -> Generator[waiting.Wait, waiting.Ready | int, None]:
        self.pgconn.send_query(statement)
        self._owes = True
        while self.pgconn.flush():
            yield waiting.Wait.RW


def _log_failure(why: str) -> None:
    logger.warning("A statement that nobody waited for failed: %s", why.partition("\n")[0])


Rows = list[Any]
_Connection = WatchedConnection | LoopConnection
Statement = tuple[str, Mapping[str, Any]]  # with `%(name)s` where a parameter goes; the parameters

# The plan returns other columns since its table was changed; a pooler gave us a session that does not know it.
_PLAN_IS_LOST: Final = frozenset({"0A000", "26000"})
ANSWER_S: Final = 8.0  # as the watchdog's, and longer than a locked row is waited for (jobfarm.asgi)
_PLACEHOLDER = re.compile(r"(?<!%)%\((\w+)\)s")
_adapters_of: "WeakKeyDictionary[psycopg.BaseConnection[Any], AdaptersMap]" = WeakKeyDictionary()


@dataclass(slots=True, eq=False)
class _Bound:
    """One statement on its way. `name` is that of its plan, empty without one; `is_new` has it planned first."""

    query: bytes
    types: tuple[int, ...]
    values: Sequence[Any]
    formats: Sequence[Any]
    name: bytes = b""
    is_new: bool = False


@dataclass(slots=True, eq=False)
class _Adapting:
    connection: _Connection
    adapters: AdaptersMap


def together(connection: WatchedConnection, statements: Sequence[Statement]) -> list[Rows]:
    """Run these one after the other and return the rows of each; those of one that returns none are [].

    Where a transaction is to be begun, it begins with the first of them. Outside of a transaction they are one. If one
    fails, those after it are not run, and its error is raised: a psycopg.Error. A statement sees what those before it
    have written, and what others had committed when it began, as ever.
    """
    with _adapting(connection) as adapting, connection.lock:
        results = connection.wait(_trip(connection, [_bound(adapting, each) for each in statements]))
    return [_rows(adapting, result) for result in results]


async def by_loop(connection: LoopConnection, statement: Statement) -> Rows:
    """Run one and return its rows, on an event loop, within ANSWER_S. Raises psycopg.Error."""
    with _adapting(connection) as adapting:
        async with connection.lock:
            [result] = await connection.wait(_trip(connection, [_bound(adapting, statement)]), timeout=ANSWER_S)
    return _rows(adapting, result)


@contextmanager
def _adapting(connection: _Connection) -> Iterator[abc.Transformer]:
    context: Any = _Adapting(connection, adapters_of(connection))
    try:
        yield Transformer(context)
    finally:
        if connection.pgconn.pipeline_status != PipelineStatus.OFF:  # broken off half-way: nobody can go on with it
            connection.pgconn.finish()


def _bound(adapting: abc.Transformer, statement: Statement) -> _Bound:
    sql, params = statement
    text, names = numbered(sql)
    try:
        values = [params[name] for name in names]
    except KeyError as error:
        raise psycopg.ProgrammingError(f"a parameter is missing: {error}") from None
    dumped = adapting.dump_sequence(values, [PyFormat.AUTO] * len(values))
    return _Bound(text, adapting.types or (), dumped, adapting.formats or ())


def _trip(connection: _Connection, sent: Sequence[_Bound]) -> abc.PQGen[list[Any]]:
    begins = not connection.autocommit and connection.pgconn.transaction_status == TransactionStatus.IDLE
    if connection.prepare_threshold is not None:  # JOBFARM_PREPARE=0
        _name(connection, sent)
    if begins or len(sent) > 1 or sent[0].is_new:
        results = yield from _pipelined(connection, sent, begins=begins)
    else:
        _send(connection, sent[0])
        results = [(yield from generators.execute(connection.pgconn))[-1]]
    for result in results:
        if result.status == ExecStatus.FATAL_ERROR:
            error = errors.error_from_result(result, encoding=connection.info.encoding)
            if error.sqlstate in _PLAN_IS_LOST:
                connection.plans.clear()
            raise error
    return results


def _name(connection: _Connection, sent: Sequence[_Bound]) -> None:
    """Name their plans: that of the same statement with parameters of the same types, or a new one."""
    new: dict[Any, bytes] = {}
    for one in sent:
        key = one.query, one.types
        known = connection.plans.get(key) or new.get(key)
        one.is_new = known is None
        one.name = new[key] = known or connection.next_plan()


def _send(connection: _Connection, one: _Bound) -> None:
    if one.name:
        connection.pgconn.send_query_prepared(one.name, one.values, param_formats=one.formats)
    else:
        connection.pgconn.send_query_params(one.query, one.values, param_types=one.types, param_formats=one.formats)


def _pipelined(connection: _Connection, sent: Sequence[_Bound], *, begins: bool) -> Generator[Any, Any, list[Any]]:
    """The last result of each statement: of one that could not be prepared, the error of that. After an error
    PostgreSQL skips the rest of the trip."""
    pgconn = connection.pgconn
    pgconn.enter_pipeline_mode()
    if begins:
        pgconn.send_query_params(_begin(connection), None)
    for one in sent:
        if one.is_new:
            pgconn.send_prepare(one.name, one.query, param_types=one.types)
        _send(connection, one)
    pgconn.pipeline_sync()
    # It reads meanwhile: a server with many answers reads on when it is rid of them.
    yield from generators.send(pgconn)
    results = [(yield from _next(pgconn))] if begins else []
    for one in sent:
        prepared = (yield from _next(pgconn)) if one.is_new else None
        result = yield from _next(pgconn)
        if prepared is not None and prepared.status == ExecStatus.COMMAND_OK:
            connection.plans[one.query, one.types] = one.name
        results.append(prepared if prepared is not None and prepared.status == ExecStatus.FATAL_ERROR else result)
    yield from _next(pgconn)  # of the sync
    pgconn.exit_pipeline_mode()
    return results if not begins or results[0].status == ExecStatus.FATAL_ERROR else results[1:]


def _next(pgconn: Any) -> Generator[Any, Any, Any]:
    several = yield from generators.fetch_many(pgconn)
    return several[-1]


def _begin(connection: _Connection) -> bytes:
    level = connection.isolation_level
    return b"BEGIN" if level is None else f"BEGIN ISOLATION LEVEL {level.name.replace('_', ' ')}".encode()


def _rows(adapting: abc.Transformer, result: Any) -> Rows:
    if result.status != ExecStatus.TUPLES_OK:
        return []
    make: Any = _row(*map(result.fname, range(result.nfields)))
    adapting.set_pgresult(result)
    try:
        return adapting.load_rows(0, result.ntuples, make)
    except psycopg.DataError:  # a moment that Python has not: from now on this connection reads slower
        adapting.adapters.register_loader("timestamptz", MomentLoader)
        again = Transformer(adapting)
        again.set_pgresult(result)
        return again.load_rows(0, result.ntuples, make)


@cache
def _row(*names: bytes) -> Callable[[Sequence[Any]], Any]:
    """The maker of rows with these columns; statements are few."""
    kind: Any = namedtuple("Row", [name.decode() for name in names], rename=True)  # type: ignore[misc]
    return cast("Callable[[Sequence[Any]], Any]", kind._make)


class Binaries(list[bytes]):
    """A bytea[] that is sent as it is. psycopg sends lists as text: twice the size in hexadecimal digits, which it then
    looks through for what must be quoted, and nothing else of the process runs meanwhile. 20 MB take 0.04 s like this,
    and seconds as text."""


@cache
def numbered(sql: str) -> tuple[bytes, tuple[str, ...]]:
    """A statement with `$1`, `$2` in place of `%(name)s`, and the names in that order. Kept: statements are few."""
    names = tuple(dict.fromkeys(_PLACEHOLDER.findall(sql)))
    text = _PLACEHOLDER.sub(lambda match: f"${names.index(match[1]) + 1}", sql)
    return text.replace("%%", "%").encode(), names


def adapters_of(connection: psycopg.BaseConnection[Any]) -> AdaptersMap:
    """How values of statements in files become PostgreSQL's on this connection, and PostgreSQL's become values."""
    return _adapters_of.get(connection) or _adapters(connection)


def _adapters(connection: psycopg.BaseConnection[Any]) -> AdaptersMap:
    adapters = AdaptersMap(connection.adapters)
    # Statements are prepared per type of parameter, and psycopg sends 1 as smallint but 40000 as integer.
    adapters.register_dumper(int, Int8Dumper)
    adapters.register_dumper(Binaries, ListBinaryDumper)
    # Django leaves jsonb as text for its own fields to decode.
    adapters.register_loader("jsonb", JsonbLoader)
    # Django's own is in Python and ten times as slow. It says UTC, and so does the session (settings.TIME_ZONE).
    adapters.register_loader("timestamptz", TimestamptzLoader)
    _adapters_of[connection] = adapters
    return adapters


FIRST_MOMENT: Final = datetime(
    2, 1, 1, tzinfo=UTC
)  # a year from the calendar's end: so is what is counted on from there
LAST_MOMENT: Final = datetime(9999, 1, 1, tzinfo=UTC)


class MomentLoader(TimestamptzLoader):
    """Django's for UTC. Moments that Python has not, infinities and years before 1 and after 9999, are FIRST_MOMENT or
    LAST_MOMENT: somebody may write them, and a row that has one keeps no page from the others."""

    timezone = UTC  # Django asks for it

    def load(self, data: abc.Buffer) -> datetime:
        try:
            return super().load(data).replace(tzinfo=UTC)
        except psycopg.DataError:
            text = bytes(data)
            return FIRST_MOMENT if text.startswith(b"-") or text.endswith(b"BC") else LAST_MOMENT


def is_beyond_python(moment: datetime) -> bool:
    """Whether this is how a moment is read that Python has not."""
    return moment in {FIRST_MOMENT, LAST_MOMENT}
