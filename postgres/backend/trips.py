"""Statements that go to the server together and come back together: one round trip, the BEGIN of their transaction with
them (docs/adr/0037).

psycopg's pipeline mode does the same for cursors and costs as much of the processor as a round trip for each. Here is
what a statement kept in a file needs: its parameters bound, its plan kept by psycopg's own manager of prepared
statements, its rows as named tuples.
"""

from collections import namedtuple
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, cast

import psycopg
from psycopg import abc, errors, generators
from psycopg._preparing import Prepare
from psycopg.adapt import AdaptersMap, PyFormat, Transformer
from psycopg.pq import ExecStatus, PipelineStatus, TransactionStatus

from postgres.backend.posting import WatchedConnection
from postgres.backend.prepared import adapters_of, numbered

Rows = list[Any]
Statement = tuple[str, Mapping[str, Any]]  # with `%(name)s` where a parameter goes; the parameters


@dataclass(slots=True, eq=False)
class _Sent:
    """One statement on its way. `query` and `types` are what psycopg's manager of prepared statements reads of it."""

    query: bytes
    types: tuple[int, ...]
    values: Sequence[Any]
    formats: Sequence[Any]
    preparing: Prepare = Prepare.NO
    name: bytes = b""
    key: Any = None
    commands: list[Callable[[], None]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Adapting:
    """What psycopg's Transformer reads of a cursor."""

    connection: WatchedConnection
    adapters: AdaptersMap


def together(connection: WatchedConnection, statements: Sequence[Statement]) -> list[Rows]:
    """Run these one after the other and return the rows of each; those of one that returns none are [].

    Where a transaction is to be begun, it begins with the first of them. Outside of a transaction they are one. If one
    fails, those after it are not run, and its error is raised: a psycopg.Error. A statement sees what those before it
    have written, and what others had committed when it began, as ever.
    """
    context: Any = _Adapting(connection, adapters_of(connection))
    adapting: abc.Transformer = Transformer(context)
    try:
        with connection.lock:
            results = connection.wait(_trip(connection, [_bound(adapting, each) for each in statements]))
    except errors._NO_TRACEBACK as error:  # noqa: SLF001  # as psycopg's own cursors: without its inner frames
        raise error.with_traceback(None) from None
    finally:
        if connection.pgconn.pipeline_status != PipelineStatus.OFF:  # broken off half-way: nobody can go on with it
            connection.pgconn.finish()
    return [_rows(adapting, result) for result in results]


def _bound(adapting: abc.Transformer, statement: Statement) -> _Sent:
    sql, params = statement
    text, names = numbered(sql)
    try:
        values = [params[name] for name in names]
    except KeyError as error:
        raise psycopg.ProgrammingError(f"a parameter is missing: {error}") from None
    dumped = adapting.dump_sequence(values, [PyFormat.AUTO] * len(values))
    return _Sent(text, adapting.types or (), dumped, adapting.formats or ())


def _trip(connection: WatchedConnection, sent: Sequence[_Sent]) -> abc.PQGen[list[Any]]:
    connection._check_connection_ok()  # noqa: SLF001
    begins = not connection.autocommit and connection.pgconn.transaction_status == TransactionStatus.IDLE
    for one in sent:
        _prepare(connection, one)
    if begins or len(sent) > 1 or len(sent[0].commands) > 1:
        results = yield from _pipelined(connection, sent, begins=begins)
    else:
        sent[0].commands[0]()
        results = [(yield from generators.execute(connection.pgconn))[-1]]
    _keep(connection, sent, results)
    yield from connection._prepared.maintain_gen(connection)  # noqa: SLF001
    for result in results:
        if result.status == ExecStatus.FATAL_ERROR:
            raise errors.error_from_result(result, encoding=connection.pgconn._encoding)  # noqa: SLF001
    return results


def _prepare(connection: WatchedConnection, one: _Sent) -> None:
    """What is to be sent for it: the statement by its name, and before that its text where it is not known yet."""
    prepared, pgconn = connection._prepared, connection.pgconn  # noqa: SLF001
    one.preparing, one.name = prepared.get(one, True)  # type: ignore[arg-type]
    if one.preparing is Prepare.NO:  # JOBFARM_PREPARE=0
        params: dict[str, Any] = {"param_types": one.types, "param_formats": one.formats}
        one.commands = [partial(pgconn.send_query_params, one.query, one.values, **params)]
        return
    if one.preparing is Prepare.SHOULD:
        one.commands = [partial(pgconn.send_prepare, one.name, one.query, param_types=one.types)]
    one.commands.append(partial(pgconn.send_query_prepared, one.name, one.values, param_formats=one.formats))
    one.key = prepared.maybe_add_to_cache(one, one.preparing, one.name)  # type: ignore[arg-type]


def _pipelined(connection: WatchedConnection, sent: Sequence[_Sent], *, begins: bool) -> Generator[Any, Any, list[Any]]:
    """The last result of each statement: of one that could not be prepared, the error of that."""
    pgconn, count = connection.pgconn, begins + sum(len(one.commands) for one in sent)
    pgconn.enter_pipeline_mode()
    if begins:
        pgconn.send_query_params(connection._get_tx_start_command(), None)  # noqa: SLF001
    for one in sent:
        for send in one.commands:
            send()
    pgconn.pipeline_sync()
    # It reads meanwhile: a server with many answers reads on when it is rid of them.
    yield from generators.send(pgconn)
    received = []
    for _ in range(count + 1):
        several = yield from generators.fetch_many(pgconn)
        received.append(several[-1])
    pgconn.exit_pipeline_mode()
    return _of_each(sent, received, begins=begins)


def _of_each(sent: Sequence[_Sent], received: Sequence[Any], *, begins: bool) -> list[Any]:
    """After an error PostgreSQL skips the rest of the trip: the one that failed stands for its statement."""
    if begins and received[0].status == ExecStatus.FATAL_ERROR:
        return [received[0]]
    results, place = [], int(begins)
    for one in sent:
        mine = received[place : place + len(one.commands)]
        place += len(one.commands)
        failed = (result for result in mine if result.status == ExecStatus.FATAL_ERROR)
        results.append(next(failed, mine[-1]))
    return results


def _keep(connection: WatchedConnection, sent: Sequence[_Sent], results: Sequence[Any]) -> None:
    """Let psycopg know which of these are prepared now: of those that were skipped, none."""
    for place, one in enumerate(sent):
        if one.key is not None:
            mine = results[place : place + 1]
            connection._prepared.validate(one.key, one.preparing, one.name, mine)  # noqa: SLF001


def _rows(adapting: abc.Transformer, result: Any) -> Rows:
    if result.status != ExecStatus.TUPLES_OK:
        return []
    adapting.set_pgresult(result)
    make: Any = _row(*(result.fname(n) for n in range(result.nfields)))
    return adapting.load_rows(0, result.ntuples, make)


@cache
def _row(*names: bytes) -> Callable[[Sequence[Any]], Any]:
    """The maker of rows with these columns; statements are few."""
    kind: Any = namedtuple("Row", [name.decode() for name in names], rename=True)  # type: ignore[misc]
    return cast("Callable[[Sequence[Any]], Any]", kind._make)
