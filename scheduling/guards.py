"""Guards that fail loudly: a mutation does nothing that a rollback leaves behind, an action writes by mutations alone.

On in development and tests; SCHEDULING_GUARDS turns them on or off. What they see and what passes them is in
docs/scheduling.md.

An asyncio task, `sync_to_async` and `asyncio.to_thread` take the context of what is watched along. A plain thread does
not: it is noted which function started it, until that function has ended."""

import re
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial, wraps
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections
from psycopg.errors import ReadOnlySqlTransaction
from psycopg.pq import TransactionStatus

from postgres.backend.base import PostingCursor
from scheduling import errors
from scheduling.domain.calls import Kind

_starters: "WeakKeyDictionary[threading.Thread, Watched]" = WeakKeyDictionary()
_Refusal = Callable[[str, tuple[Any, ...]], errors.SchedulingError | None]
_COMMENTS = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_LITERALS = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\$(\w*)\$.*?\$\1\$", re.DOTALL)
_CHANGES = r"\b(INSERT\s+INTO|DELETE\s+FROM|MERGE\s+INTO|(?<!FOR\s)(?<!KEY\s)UPDATE\s+(?!OF\b|SKIP\b|NOWAIT\b)\w)"
_WRITES = re.compile(
    r"^[\s(]*(INSERT|UPDATE|DELETE|MERGE|TRUNCATE|CREATE|ALTER|DROP|CALL|DO|GRANT|REVOKE|REFRESH|COMMENT)\b"
    rf"|^[\s(]*(WITH|EXPLAIN|PREPARE)\b.*{_CHANGES}"
    r"|^[\s(]*(SELECT|WITH)\b.*\bINTO\s+(TEMP|UNLOGGED|TABLE|\w)"
    rf"|^\s*COPY\s+[^\s(].*\bFROM\b|^\s*COPY\s*\(.*{_CHANGES}",
    re.IGNORECASE | re.DOTALL,
)
# A statement that calls a function, or executes one that was prepared, may write unseen. One that locks rows must not
# be tried as if it only read: PostgreSQL takes that for a write.
_HIDES = re.compile(r"^[\s(]*(SELECT|WITH|VALUES|TABLE)\b.*\w\s*\(|^\s*EXECUTE\b", re.IGNORECASE | re.DOTALL)
_LOCKS = re.compile(r"\bFOR\s+(NO\s+KEY\s+)?UPDATE\b|\bFOR\s+(KEY\s+)?SHARE\b", re.IGNORECASE)
LONGEST_STATEMENT = 80  # characters of it that a refusal repeats
_METHODS = (
    (psycopg.Cursor, ("execute", "executemany", "stream", "copy")),
    (psycopg.AsyncCursor, ("execute", "executemany", "stream", "copy")),
    (psycopg.ServerCursor, ("execute",)),
    (psycopg.AsyncServerCursor, ("execute",)),
    (PostingCursor, ("execute",)),
)
_THIS_MACHINE = frozenset({"", "localhost", "127.0.0.1", "::1"})


@contextmanager
def mutation(function: str) -> Iterator[None]:
    """For the length of the block, leaving the transaction raises: OutsideConnection for the network, OutsideProcess,
    OutsideThread, and SecondConnection for another way into a database."""
    with _watching(function, Kind.MUTATION) as is_watched, ExitStack() as stack:
        for connection in connections.all() if is_watched else ():
            if connection.alias != DEFAULT_DB_ALIAS:
                refuse = partial(refuse_alias, connection.alias)
                stack.enter_context(connection.execute_wrapper(refuse))
        yield


def action(function: str) -> AbstractContextManager[bool]:
    """For the length of the block, writing to the farm's database raises WriteOutsideMutation: here, in the threads
    that the block starts, and in those of executors that it gives work to."""
    return _watching(function, Kind.ACTION)


@cache
def _install() -> None:
    """Once in a process, for good: an audit hook cannot be taken away again."""
    sys.addaudithook(_audit)
    _wrap(Thread, "start", _thread_starts)
    _wrap(ThreadPoolExecutor, "submit", _work_is_submitted)
    _wrap(ProcessPoolExecutor, "submit", _process_starts)
    _wrap(BaseProcess, "start", _process_starts)
    for cursor, names in _METHODS:
        for name in names:
            _guard(cursor, name)
    _guard_connections()


@dataclass(eq=False, slots=True)
class Watched:
    function: str
    kind: Kind
    is_over: bool = False


# Unset means that nobody has said anything here, and what started this thread counts; None, that nothing is watched.
_here: ContextVar[Watched | None] = ContextVar("scheduling_watched")
_NOBODY = Watched(function="", kind=Kind.ACTION, is_over=True)


def current(kind: Kind) -> Watched | None:
    here = _here.get(_NOBODY)
    if here is _NOBODY:
        here = _starters.get(threading.current_thread())
    return here if here is not None and here.kind is kind and not here.is_over else None


@contextmanager
def _watching(function: str, kind: Kind) -> Iterator[bool]:
    """Watch this function, for the length of the block, where guards are on; whether they are. Threads of its that live
    longer are not watched any more."""
    if not settings.SCHEDULING_GUARDS:
        yield False
        return
    _install()
    here = Watched(function=function, kind=kind)
    try:
        with _set(here):
            yield True
    finally:
        here.is_over = True


@contextmanager
def trusted() -> Iterator[None]:
    """For the scheduler's own statements, and for those of whoever knows what it does: nothing is watched."""
    with _set(None):
        yield


def _in_context(here: Watched, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function where it is watched as what gave it here."""
    with _set(here):
        return function(*args, **kwargs)


@contextmanager
def _set(here: Watched | None) -> Iterator[None]:
    token = _here.set(here)
    try:
        yield
    finally:
        _here.reset(token)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    refusal = _REFUSALS.get(event)
    if refusal is None:
        return
    mutation = current(Kind.MUTATION)
    if mutation is not None and (error := refusal(mutation.function, arguments)) is not None:
        raise error


def _connects(place: int) -> _Refusal:
    return lambda function, arguments: errors.OutsideConnection(function=function, address=_readable(arguments[place]))


def _runs(place: int) -> _Refusal:
    return lambda function, arguments: errors.OutsideProcess(function=function, command=_readable(arguments[place]))


def _forks(function: str, _: tuple[Any, ...]) -> errors.SchedulingError:
    return errors.OutsideProcess(function=function, command="a copy of this one")


def _starts_thread(function: str, arguments: tuple[Any, ...]) -> errors.SchedulingError:
    return errors.OutsideThread(function=function, work=_named(arguments[0]))


def _opens_sqlite(function: str, arguments: tuple[Any, ...]) -> errors.SchedulingError | None:
    name = _readable(arguments[0])  # one in memory ends with the function
    return None if name in {"", ":memory:"} else errors.SecondConnection(function=function, database=name)


# Python raises these before it does what they say. The database's own connection is libpq's and raises none.
_REFUSALS: dict[str, _Refusal] = {
    "socket.connect": _connects(1),
    "socket.sendto": _connects(1),
    "socket.sendmsg": _connects(1),
    "socket.getaddrinfo": _connects(0),
    "socket.gethostbyname": _connects(0),
    "socket.gethostbyaddr": _connects(0),
    "socket.getnameinfo": _connects(0),
    "subprocess.Popen": _runs(1),
    "os.system": _runs(0),
    "os.posix_spawn": _runs(0),
    "os.exec": _runs(0),
    "os.fork": _forks,
    "os.forkpty": _forks,
    "_thread.start_new_thread": _starts_thread,  # 3.12
    "_thread.start_joinable_thread": _starts_thread,  # 3.13
    "sqlite3.connect": _opens_sqlite,
}


def _wrap(owner: type, name: str, instead: Callable[..., Any]) -> None:
    original = getattr(owner, name)

    @wraps(original)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        return instead(original, *args, **kwargs)

    setattr(owner, name, guarded)


def _thread_starts(original: Callable[..., Any], thread: Thread) -> None:
    _refuse_thread(thread)
    if (action := current(Kind.ACTION)) is not None:
        _starters[thread] = action
    original(thread)


def _work_is_submitted(
    original: Callable[..., Any], executor: ThreadPoolExecutor, function: Callable[..., Any], /, *args: Any,
    **kwargs: Any,
) -> Any:  # fmt: skip
    _refuse_thread(function)
    if (action := current(Kind.ACTION)) is not None:
        function = partial(_in_context, action, function)
    return original(executor, function, *args, **kwargs)


def _process_starts(original: Callable[..., Any], process: Any, *args: Any, **kwargs: Any) -> Any:
    if (mutation := current(Kind.MUTATION)) is not None:
        raise errors.OutsideProcess(function=mutation.function, command=_named(args[0] if args else process))
    return original(process, *args, **kwargs)


def _refuse_thread(work: Any) -> None:
    if (mutation := current(Kind.MUTATION)) is not None:
        raise errors.OutsideThread(function=mutation.function, work=_named(work))


def _readable(value: Any) -> str:
    if isinstance(value, tuple) and len(value) >= 2:
        return f"{value[0]}:{value[1]}"
    if isinstance(value, list | tuple):
        return " ".join(map(_readable, value))[:80]
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _named(work: Any) -> str:
    """A name for it, and not its text: that of a queryset is a query."""
    return str(getattr(work, "__qualname__", None) or getattr(work, "name", None) or type(work).__qualname__)


def is_write(text: str) -> bool:
    """Whether a statement, or one of several, says that it writes. A function that it calls may write unseen."""
    return any(_WRITES.search(statement) for statement in _bare(text).split(";"))


def may_hide_a_write(text: str) -> bool:
    """Whether one that does not say so may write all the same."""
    bare = _bare(text)
    return bool(_HIDES.search(bare)) and not _LOCKS.search(bare) and ";" not in bare


def _bare(text: str) -> str:
    return _COMMENTS.sub(" ", _LITERALS.sub(" _ ", text)).strip().rstrip(";")


def refuse_alias(alias: str, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
    """Around each statement that Django executes for another alias than the default one, whatever its engine."""
    if (mutation := current(Kind.MUTATION)) is not None:
        raise errors.SecondConnection(function=mutation.function, database=f"the alias {alias}")
    return execute(sql, params, many, context)


def _guard(owner: Any, name: str) -> None:
    original = getattr(owner, name)
    waits = owner is psycopg.Cursor and name == "execute"

    @wraps(original)
    def guarded(cursor: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
        if (mutation := current(Kind.MUTATION)) is not None:
            if cursor.connection is not connections[DEFAULT_DB_ALIAS].connection:
                raise errors.SecondConnection(function=mutation.function, database=cursor.connection.info.dbname)
        elif (action := current(Kind.ACTION)) is not None and _is_farms(cursor.connection):
            text = _text(query, cursor.connection)
            if is_write(text):
                raise _refusal(action.function, text)
            if waits and _can_be_tried(cursor.connection) and may_hide_a_write(text):
                return _only_reading(action.function, text, cursor.connection, original, cursor, query, *args, **kwargs)
        return original(cursor, query, *args, **kwargs)

    setattr(owner, name, guarded)


def _guard_connections() -> None:
    original = psycopg.BaseConnection.__init__

    @wraps(original)
    def guarded(connection: Any, pgconn: Any, *args: Any, **kwargs: Any) -> None:
        if (mutation := current(Kind.MUTATION)) is not None:
            name = pgconn.db.decode(errors="replace")
            pgconn.finish()
            raise errors.SecondConnection(function=mutation.function, database=name)
        original(connection, pgconn, *args, **kwargs)

    setattr(psycopg.BaseConnection, "__init__", guarded)  # noqa: B010 (mypy lets no method be assigned)


def _is_farms(connection: Any) -> bool:
    """Whether it leads to the database that mutations write to. One that is lost leads nowhere."""
    wrapper = connections[DEFAULT_DB_ALIAS]
    if connection is wrapper.connection:
        return True
    if connection.closed:
        return False
    own, info = wrapper.settings_dict, connection.info
    hosts = set(str(own["HOST"]).split(","))
    is_host = info.host in hosts or (info.host in _THIS_MACHINE and bool(hosts & _THIS_MACHINE))
    is_host = is_host or ("" in hosts and info.host.startswith("/"))  # libpq's own folder
    return is_host and info.dbname == own["NAME"] and str(info.port) in {*str(own["PORT"] or 5432).split(",")}


def _text(query: Any, connection: Any) -> str:
    if isinstance(query, psycopg.sql.Composable):
        return query.as_string(connection)
    return query.decode(errors="replace") if isinstance(query, bytes) else str(query)


def _can_be_tried(connection: Any) -> bool:
    """Outside of a transaction: within one, what comes after it would only read too."""
    return bool(connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE)


def _only_reading(
    function: str, text: str, connection: Any, execute: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """Execute it in a transaction that may only read: the server knows what a function of SQL does."""
    before, connection.read_only = connection.read_only, True
    try:
        with connection.transaction():
            return execute(*args, **kwargs)
    except ReadOnlySqlTransaction as error:
        raise _refusal(function, text) from error
    finally:
        if not connection.closed:
            connection.read_only = before


def _refusal(function: str, text: str) -> errors.WriteOutsideMutation:
    return errors.WriteOutsideMutation(function=function, statement=" ".join(text.split())[:LONGEST_STATEMENT])
