"""A cursor for statements that are planned once, and what Django's debugging needs to show them."""

import re
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from django.db.backends.postgresql import operations
from psycopg.adapt import AdaptersMap
from psycopg.rows import namedtuple_row
from psycopg.types.array import ListBinaryDumper
from psycopg.types.datetime import TimestamptzLoader
from psycopg.types.json import JsonbLoader
from psycopg.types.numeric import Int8Dumper

from postgres.backend.posting import PostingCursor

_PLACEHOLDER = re.compile(r"(?<!%)%\((\w+)\)s")
_adapters_of: "WeakKeyDictionary[psycopg.Connection[Any], AdaptersMap]" = WeakKeyDictionary()


class Binaries(list[bytes]):
    """A bytea[] that is sent as it is. psycopg sends lists as text: twice the size in hexadecimal digits, which it then
    looks through for what must be quoted, and nothing else of the process runs meanwhile. 20 MB take 0.04 s like this,
    and seconds as text."""


class PreparedCursor(psycopg.RawCursor[Any]):
    """Binds parameters on the server, and prepares what it runs: planned once per connection.

    Parameters are named, `%(name)s`. psycopg would look for them in the text of a statement over 4,096 characters, as a
    claim is, each time; here it is done once.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._shared = adapters_of(connection)
        super().__init__(connection, row_factory=namedtuple_row)

    @property
    def adapters(self) -> AdaptersMap:
        """Those of all such cursors of a connection: to register ours anew copied four maps for each statement."""
        return self._shared

    def execute(self, query: Any, params: Any = None, **options: Any) -> "PreparedCursor":
        text, names = numbered(query)
        try:
            values = [params[name] for name in names]
        except KeyError as error:
            raise psycopg.ProgrammingError(f"a parameter is missing: {error}") from None
        return super().execute(text, values, **{"prepare": True, **options})


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


class DatabaseOperations(operations.DatabaseOperations):
    """Django's, and it knows what a cursor of ours ran: such a cursor keeps no text with the values in it."""

    def last_executed_query(self, cursor: Any, sql: Any, params: Any) -> str:
        if not isinstance(cursor, PreparedCursor | PostingCursor):
            return super().last_executed_query(cursor, sql, params)
        try:
            return str(self.compose_sql(sql, params))
        except psycopg.Error:  # a value that has no text form: debugging must not fail what worked
            return str(sql)
