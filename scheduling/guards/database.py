"""What goes through psycopg: on Django's connections, on those that a function opens itself, in any thread.

psycopg raises no audit events, so the methods are wrapped that all its cursors come by, and the making of a connection.
"""

import re
from collections.abc import Callable
from functools import wraps
from typing import Any

import psycopg
from django.db import DEFAULT_DB_ALIAS, connections
from psycopg.errors import ReadOnlySqlTransaction
from psycopg.pq import TransactionStatus

from postgres.backend.posting import PostingCursor
from scheduling.domain.states import Kind
from scheduling.errors import SecondConnection, WriteOutsideMutation
from scheduling.guards import watched

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


def is_write(text: str) -> bool:
    """Whether a statement, or one of several, says that it writes. A function that it calls may write unseen."""
    return any(_WRITES.search(statement) for statement in _bare(text).split(";"))


def may_hide_a_write(text: str) -> bool:
    """Whether one that does not say so may write all the same."""
    bare = _bare(text)
    return bool(_HIDES.search(bare)) and not _LOCKS.search(bare) and ";" not in bare


def _bare(text: str) -> str:
    return _COMMENTS.sub(" ", _LITERALS.sub(" _ ", text)).strip().rstrip(";")


LONGEST_STATEMENT = 80  # characters of it that a refusal repeats
_METHODS = (
    (psycopg.Cursor, ("execute", "executemany", "stream", "copy")),
    (psycopg.AsyncCursor, ("execute", "executemany", "stream", "copy")),
    (psycopg.ServerCursor, ("execute",)),
    (psycopg.AsyncServerCursor, ("execute",)),
    (PostingCursor, ("execute",)),
)
_THIS_MACHINE = frozenset({"", "localhost", "127.0.0.1", "::1"})


def install() -> None:
    for cursor, names in _METHODS:
        for name in names:
            _guard(cursor, name)
    _guard_connections()


def refuse_alias(alias: str, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
    """Around each statement that Django executes for another alias than the default one, whatever its engine."""
    if (mutation := watched.current(Kind.MUTATION)) is not None:
        raise SecondConnection(function=mutation.function, database=f"the alias {alias}")
    return execute(sql, params, many, context)


def _guard(owner: Any, name: str) -> None:
    original = getattr(owner, name)
    waits = owner is psycopg.Cursor and name == "execute"

    @wraps(original)
    def guarded(cursor: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
        if (mutation := watched.current(Kind.MUTATION)) is not None:
            _refuse_other_connections(mutation.function, cursor.connection)
        elif (action := watched.current(Kind.ACTION)) is not None and _is_farms(cursor.connection):
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
        if (mutation := watched.current(Kind.MUTATION)) is not None:
            name = pgconn.db.decode(errors="replace")
            pgconn.finish()
            raise SecondConnection(function=mutation.function, database=name)
        original(connection, pgconn, *args, **kwargs)

    setattr(psycopg.BaseConnection, "__init__", guarded)  # noqa: B010 (mypy lets no method be assigned)


def _refuse_other_connections(function: str, connection: Any) -> None:
    if connection is not connections[DEFAULT_DB_ALIAS].connection:
        raise SecondConnection(function=function, database=connection.info.dbname)


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


def _refusal(function: str, text: str) -> WriteOutsideMutation:
    return WriteOutsideMutation(function=function, statement=" ".join(text.split())[:LONGEST_STATEMENT])
