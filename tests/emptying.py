"""Emptying the test database after a test that committed: of what it filled alone.

Django flushes: it truncates every table, deals out content types and permissions anew, and took 0.2 s for each of more
than two thousand tests. Here tables with rows are emptied, the small ones by DELETE; what `migrate` left stays, with
its ids, so that a server that outlives a test may remember it.
"""

import psycopg
from django.db import connection
from django.test import TransactionTestCase
from psycopg import sql

from postgres import transactions
from postgres.embedded import places

_LOCK = 0x656D707479  # any number that nobody else takes
KEPT = ("auth_permission", "django_content_type", "django_migrations")
# Truncating makes new files for a table, its indexes and all that refer to it (50 ms for the table of users), so it is
# for tables of over half a megabyte, and for those that guard their rows against DELETE by a trigger where that cannot
# be left out (`allow`): they are a hundred files, and take 8 ms in place of 1.5. Who still writes to one of these is
# waited for, as it was when all of them were truncated.
_EMPTY = """
DO $$
DECLARE
    place regclass;
    is_guarded boolean;
    is_cut boolean;
    is_allowed CONSTANT boolean := has_parameter_privilege('session_replication_role', 'SET');
BEGIN
    SET LOCAL synchronous_commit = off;
    IF is_allowed THEN
        SET LOCAL session_replication_role = replica;
    END IF;
    FOR place, is_guarded, is_cut IN
        SELECT c.oid, g.is_guarded, pg_relation_size(c.oid) > 500000 OR g.is_guarded AND NOT is_allowed
        FROM pg_class AS c, LATERAL (SELECT EXISTS (
            SELECT FROM pg_trigger AS t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND t.tgtype & 8 > 0
        )) AS g (is_guarded)
        WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND pg_relation_size(c.oid) > 0
          AND c.relname <> ALL (ARRAY[%(kept)s])
        ORDER BY 3 DESC, 2 DESC
    LOOP
        IF is_cut THEN
            EXECUTE format('TRUNCATE %%s CASCADE', place);
            CONTINUE;
        ELSIF is_guarded THEN
            EXECUTE format('LOCK TABLE %%s IN EXCLUSIVE MODE', place);
        END IF;
        EXECUTE format('DELETE FROM %%s', place);
    END LOOP;
END $$
"""


def empty() -> None:
    """Leave what a fresh farm has: the queues of declared kinds, content types, permissions."""
    _delete_all()
    from jobs import operations  # the command of the mutants runs without Django

    operations.sync()


@transactions.retried
def _delete_all() -> None:
    """Again after a deadlock: a server that outlives the test may still give back what the test's end took from it."""
    kept = ", ".join(f"'{name}'" for name in KEPT)
    with connection.cursor() as cursor:
        cursor.execute(_EMPTY % {"kept": kept})


def allow(superuser: "psycopg.Connection[tuple[object, ...]]") -> None:
    """Let the tests' own server empty tables without asking their triggers. Of several at once the first does it."""
    with superuser.transaction():
        superuser.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        may = "SELECT has_parameter_privilege(%s, 'session_replication_role', 'SET')"
        if superuser.execute(may, [places.ROLE]).fetchone() == (False,):
            grant = sql.SQL("GRANT SET ON PARAMETER session_replication_role TO {}")
            superuser.execute(grant.format(sql.Identifier(places.ROLE)))


def in_place_of_flush() -> None:
    """Let pytest-django's transactional tests end with `empty`."""
    TransactionTestCase._fixture_teardown = lambda self: empty()  # type: ignore[attr-defined]
