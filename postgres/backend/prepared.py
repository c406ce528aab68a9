"""How statements that are kept in files, and their values, become PostgreSQL's."""

import re
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg.adapt import AdaptersMap
from psycopg.types.array import ListBinaryDumper
from psycopg.types.datetime import TimestamptzLoader
from psycopg.types.json import JsonbLoader
from psycopg.types.numeric import Int8Dumper

_PLACEHOLDER = re.compile(r"(?<!%)%\((\w+)\)s")
_adapters_of: "WeakKeyDictionary[psycopg.Connection[Any], AdaptersMap]" = WeakKeyDictionary()


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


def adapters_of(connection: psycopg.Connection[Any]) -> AdaptersMap:
    """How values of statements in files become PostgreSQL's on this connection, and PostgreSQL's become values."""
    return _adapters_of.get(connection) or _adapters(connection)


def _adapters(connection: psycopg.Connection[Any]) -> AdaptersMap:
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
