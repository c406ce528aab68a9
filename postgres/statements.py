"""Statements kept in files: `<app>/sql/<name>.sql`, opening with a caption of `--` lines that says what and why."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from importlib import resources
from typing import Any, TypeAlias, cast

from django.db import connections

from postgres.backend.base import DatabaseWrapper
from postgres.backend.trips import Binaries

__all__ = ["Binaries", "Call", "Params", "Row", "Statement", "first_id_since", "ids_between", "load", "together"]

# A named tuple with the statement's columns: `row.id`. Which columns is known to the SQL alone, hence Any.
Row: TypeAlias = Any
_DISORDER = timedelta(minutes=1)  # between ids and times, of transactions side by side
Params: TypeAlias = dict[str, Any]

_COMMENT_LINES = re.compile(r"^\s*--.*\n?", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement, ready to be run. `sql` has `%(name)s` where a parameter goes, and `%%` for a percent sign."""

    name: str
    sql: str = field(repr=False)

    def run(self, params: Params | None = None, *, using: str = "default") -> list[Row]:
        """Run it on Django's connection of this thread, so inside the caller's transaction, and return all its rows.

        The parameters are bound by the server and the plan is made once per connection (JOBFARM_PREPARE=0 turns that
        off). Whole numbers are always sent as bigint, so that one plan serves small and large ones: cast where a
        function wants an integer. JSON goes in as psycopg's Jsonb(value) and comes out as Python values; so do arrays,
        as lists. No rows, or a statement that returns none: []. Raises Django's database errors; is seen by
        execute_wrapper() and by assertNumQueries like any query."""
        return together([(self, params or {})], using=using)[0]

    def post(self, params: Params, *, using: str = "default") -> None:
        """Send it on Django's connection of this thread and wait for nothing: for a hint that may get lost.

        What goes wrong with it is a line in the log. The parameters are written into its text."""
        connection = cast("DatabaseWrapper", connections[using])
        with connection.posting_cursor() as cursor:
            cursor.execute(self.sql, params)


Call: TypeAlias = tuple[Statement, Params]


def together(calls: Sequence[Call], *, using: str = "default") -> list[list[Row]]:
    """`run` several statements, one after the other, in one round trip, and return the rows of each.

    The BEGIN of the transaction that they are in goes with the first of them. If one fails, those after it are not run.
    For statements that need nothing of what those before them return. Where somebody watches what is run
    (execute_wrapper(), assertNumQueries) they are run one by one, to be seen."""
    connection = cast("DatabaseWrapper", connections[using])
    if connection.execute_wrappers or connection.queries_logged:
        return [_watched(connection, statement.sql, params) for statement, params in calls]
    return connection.together([(statement.sql, params) for statement, params in calls])


def _watched(connection: DatabaseWrapper, sql: str, params: Params) -> list[Row]:
    with connection.prepared_cursor() as cursor:
        cursor.execute(sql, params)
        return [] if cursor.rownumber is None else cursor.fetchall()  # description is dear to make


@cache
def load(app: str, name: str) -> Statement:
    """The statement in `<app>/sql/<name>.sql`. Read once per process. Raises FileNotFoundError."""
    text = resources.files(app).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
    # The name travels with it, so that pg_stat_activity says which statement runs; the comments do not.
    sql = f"/* {app}.{name} */ {_COMMENT_LINES.sub('', text).strip().rstrip(';')}"
    return Statement(name=f"{app}.{name}", sql=sql)


def first_id_since(table: str, column: str, moment: datetime) -> int:
    """The smallest id from which on every row of `table` has `moment` or a later one in `column`.

    For tables whose ids and times grow together; where they may be out of order, ask for a moment that much away. With
    no such row it is the id that the next one will have at the earliest. `table` and `column` are names from the code,
    `column` is never null.
    """
    [row] = _halving(table, column).run({"since": moment})
    first: int = row.id
    return first


def ids_between(table: str, column: str, since: datetime, until: datetime) -> tuple[int, int]:
    """An id from which on, and one before which, every row lies whose `column` is from `since` on and before `until`;
    a minute's worth too many on each side, for rows whose ids and times are out of order."""
    first = first_id_since(table, column, since - _DISORDER)
    return first, first_id_since(table, column, until + _DISORDER)


@cache
def _halving(table: str, column: str) -> Statement:
    general = load("postgres", "first_id_since")
    return replace(general, sql=general.sql.format(table=table, column=column))
