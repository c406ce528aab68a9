"""Two guards that fail loudly: a mutation must not open a connection, an action must not write past a mutation.

On in development and tests; SCHEDULING_GUARDS turns them on or off.
"""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

from django.conf import settings
from django.db import connections

from scheduling.errors import OutsideConnection, WriteOutsideMutation

# The name of the mutation, or action, whose code runs now and is watched.
_mutation: ContextVar[str | None] = ContextVar("scheduling_guarded_mutation", default=None)
_action: ContextVar[str | None] = ContextVar("scheduling_guarded_action", default=None)

# Python raises these events before it touches the network. The database's own connection is libpq's and raises none.
_OUTSIDE = {"socket.connect": 1, "socket.getaddrinfo": 0, "socket.sendto": 1, "socket.sendmsg": 1}
_COMMENTS = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_LITERALS = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\$(\w*)\$.*?\$\1\$", re.DOTALL)
_WRITES = re.compile(
    r"^[\s(]*(INSERT|UPDATE|DELETE|MERGE|TRUNCATE|CREATE|ALTER|DROP|CALL|DO|GRANT|REVOKE|REFRESH)\b"
    r"|^[\s(]*WITH\b.*\b(INSERT\s+INTO|DELETE\s+FROM|MERGE\s+INTO|(?<!FOR\s)(?<!KEY\s)UPDATE\s+(?!OF\b|SKIP\b|NOWAIT\b)\w)"
    r"|^[\s(]*(SELECT|WITH)\b.*\bINTO\s+(TEMP|UNLOGGED|TABLE|\w)"
    r"|^\s*COPY\b.*\bFROM\b",
    re.IGNORECASE | re.DOTALL,
)


@contextmanager
def mutation(function: str) -> Iterator[None]:
    """For the length of the block, opening a connection raises OutsideConnection."""
    if not settings.SCHEDULING_GUARDS:
        yield
        return
    _listen_to_python()
    with _set(_mutation, function), _set(_action, None):
        yield


@contextmanager
def action(function: str) -> Iterator[None]:
    """For the length of the block, writing to a database from this thread raises WriteOutsideMutation."""
    if not settings.SCHEDULING_GUARDS:
        yield
        return
    with ExitStack() as stack:
        for connection in connections.all():
            stack.enter_context(connection.execute_wrapper(_refuse_writes))
        stack.enter_context(_set(_action, function))
        yield


@contextmanager
def trusted() -> Iterator[None]:
    """For the scheduler's own statements, and for those of a mutation that an action calls."""
    with _set(_action, None):
        yield


def is_write(statement: str) -> bool:
    """Whether an SQL statement says that it writes. A function that it calls may write unseen."""
    return bool(_WRITES.search(_COMMENTS.sub(" ", _LITERALS.sub(" _ ", statement)).strip()))


@contextmanager
def _set(variable: ContextVar[str | None], value: str | None) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def _refuse_writes(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
    function = _action.get()
    text = str(sql)
    if function is not None and is_write(text):
        raise WriteOutsideMutation(function=function, statement=" ".join(text.split())[:80])
    return execute(sql, params, many, context)


@cache
def _listen_to_python() -> None:
    sys.addaudithook(_refuse_connections)


def _refuse_connections(event: str, arguments: tuple[Any, ...]) -> None:
    place = _OUTSIDE.get(event)
    if place is None:
        return
    function = _mutation.get()
    if function is not None:
        raise OutsideConnection(function=function, address=_readable(arguments[place]))


def _readable(address: Any) -> str:
    if isinstance(address, tuple) and len(address) >= 2:
        return f"{address[0]}:{address[1]}"
    return address.decode(errors="replace") if isinstance(address, bytes) else str(address)
