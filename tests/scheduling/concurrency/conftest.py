"""Tables for the functions of tests."""

from collections.abc import Iterator

import pytest
from django.db import connection

COUNTERS = 10


@pytest.fixture
def tables(transactional_db: None) -> Iterator[None]:
    """Ten counters, and a table of marks that takes each number once."""
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS test_counter, test_mark")
        cursor.execute("CREATE TABLE test_counter (id int PRIMARY KEY, value bigint NOT NULL)")
        cursor.execute("INSERT INTO test_counter SELECT n, 0 FROM generate_series(1, %s) AS n", [COUNTERS])
        cursor.execute("CREATE TABLE test_mark (id bigint PRIMARY KEY)")
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE test_counter, test_mark")


def counters() -> dict[int, int]:
    """What the counters say."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT id, value FROM test_counter")
        return dict(cursor.fetchall())


def marks() -> list[int]:
    """All marks, in order."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM test_mark ORDER BY id")
        return [pk for (pk,) in cursor.fetchall()]
