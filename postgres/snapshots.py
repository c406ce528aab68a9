"""One moment of the database, for several sessions: what one counts is what the other dumps."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections, transaction

from postgres import statements


@contextmanager
def one_moment(using: str = "default") -> Iterator[str]:
    """A transaction that reads everything as of its first statement. Yields the name by which other sessions read as of
    the same moment while it lasts (PostgreSQL's manual, 9.28.5: pg_export_snapshot)."""
    with transaction.atomic(using=using):
        with connections[using].cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        [snapshot] = statements.load("postgres", "export_snapshot").run(using=using)
        yield snapshot.name
