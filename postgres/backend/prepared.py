"""A cursor for statements that are planned once, and what Django's debugging needs to show them."""

from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from django.db.backends.postgresql import operations
from psycopg.adapt import AdaptersMap
from psycopg.rows import namedtuple_row
from psycopg.types.datetime import TimestamptzLoader
from psycopg.types.json import JsonbLoader
from psycopg.types.numeric import Int8Dumper

from postgres.backend.posting import PostingCursor

_adapters_of: "WeakKeyDictionary[psycopg.Connection[Any], AdaptersMap]" = WeakKeyDictionary()


class PreparedCursor(psycopg.Cursor[Any]):
    """Binds parameters on the server, and prepares what it runs: planned once per connection."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._shared = _adapters_of.get(connection) or _adapters(connection)
        super().__init__(connection, row_factory=namedtuple_row)

    @property
    def adapters(self) -> AdaptersMap:
        """Those of all such cursors of a connection: to register ours anew copied four maps for each statement."""
        return self._shared

    def execute(self, query: Any, params: Any = None, **options: Any) -> "PreparedCursor":
        return super().execute(query, params, **{"prepare": True, **options})


def _adapters(connection: psycopg.Connection[Any]) -> AdaptersMap:
    adapters = AdaptersMap(connection.adapters)
    # Statements are prepared per type of parameter, and psycopg sends 1 as smallint but 40000 as integer.
    adapters.register_dumper(int, Int8Dumper)
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
