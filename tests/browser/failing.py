"""A part of the farm that fails on purpose: what a page says then is a page too."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction

# Whoever asks for bulk deeds is told by PostgreSQL what it says when, for instance, the disk is full. No code of the
# farm knows of it.
_BREAK = """
ALTER TABLE jobs_bulk RENAME TO jobs_bulk_away;
CREATE FUNCTION jobs_bulk_failing() RETURNS SETOF jobs_bulk_away LANGUAGE plpgsql AS
    $$ BEGIN RAISE 'it fails on purpose' USING ERRCODE = '{sqlstate}'; END $$;
CREATE VIEW jobs_bulk AS SELECT * FROM jobs_bulk_failing()
"""
_MEND = """
DROP VIEW jobs_bulk;
DROP FUNCTION jobs_bulk_failing();
ALTER TABLE jobs_bulk_away RENAME TO jobs_bulk
"""


@contextmanager
def bulks(*, sqlstate: str) -> Iterator[None]:
    """While inside, nobody can read bulk deeds: PostgreSQL answers with this SQLSTATE. Nothing happens for ""."""
    if not sqlstate:
        yield
        return
    _run(_BREAK.format(sqlstate=sqlstate))
    try:
        yield
    finally:
        _run(_MEND)


def _run(statements: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        for statement in statements.split(";\n"):
            cursor.execute(statement)
