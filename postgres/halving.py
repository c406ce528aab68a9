"""Where in a table a moment lies, without an index on its times."""

from dataclasses import replace
from datetime import datetime
from functools import cache

from postgres import statements
from postgres.statements import Statement


def first_id_since(table: str, column: str, moment: datetime) -> int:
    """The smallest id from which on every row of `table` has `moment` or a later one in `column`.

    For tables whose ids and times grow together; where they may be out of order, ask for a moment that much away. With
    no such row it is the id that the next one will have at the earliest. `table` and `column` are names from the code,
    `column` is never null.
    """
    [row] = _statement(table, column).run({"since": moment})
    first: int = row.id
    return first


@cache
def _statement(table: str, column: str) -> Statement:
    general = statements.load("postgres", "first_id_since")
    return replace(general, sql=general.sql.format(table=table, column=column))
