"""Emptying the test database after a test that committed: of what it filled alone.

Django flushes: it truncates every table, deals out content types and permissions anew, and took 0.2 s for each of more
than two thousand tests. Here tables with rows are emptied, the small ones by DELETE; what `migrate` left stays, with
its ids, so that a server that outlives a test may remember it.
"""

from django.db import connection
from django.test import TransactionTestCase

from jobs import operations
from postgres import transactions

KEPT = ("auth_permission", "django_content_type", "django_migrations")
# Truncating makes new files for a table, its indexes and all that refer to it (50 ms for the table of users), so it is
# for tables of over half a megabyte, and for those that guard their rows against DELETE by a trigger.
_EMPTY = """
DO $$
DECLARE
    place regclass;
    is_cut boolean;
BEGIN
    SET LOCAL synchronous_commit = off;
    FOR place, is_cut IN
        SELECT c.oid, pg_relation_size(c.oid) > 500000 OR EXISTS (
            SELECT FROM pg_trigger AS t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND t.tgtype & 8 > 0)
        FROM pg_class AS c
        WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND pg_relation_size(c.oid) > 0
          AND c.relname <> ALL (ARRAY[%(kept)s])
        ORDER BY 2 DESC
    LOOP
        IF is_cut THEN
            EXECUTE format('TRUNCATE %%s CASCADE', place);
        ELSE
            EXECUTE format('DELETE FROM %%s', place);
        END IF;
    END LOOP;
END $$
"""


def empty() -> None:
    """Leave what a fresh farm has: the queues of declared kinds, content types, permissions."""
    _delete_all()
    operations.sync()


@transactions.retried
def _delete_all() -> None:
    """Again after a deadlock: a server that outlives the test may still give back what the test's end took from it."""
    kept = ", ".join(f"'{name}'" for name in KEPT)
    with connection.cursor() as cursor:
        cursor.execute(_EMPTY % {"kept": kept})


def in_place_of_flush() -> None:
    """Let pytest-django's transactional tests end with `empty`."""
    TransactionTestCase._fixture_teardown = lambda self: empty()  # type: ignore[attr-defined]
