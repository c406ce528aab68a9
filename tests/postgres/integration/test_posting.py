"""Statements that are sent and not waited for."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, cast

import psycopg
import pytest
from django.db import OperationalError, connection, transaction
from psycopg.pq import TransactionStatus

from postgres import connections
from postgres.backend.base import DatabaseWrapper
from postgres.backend.trips import Connection

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _table() -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE posted (what text)")
    yield
    connection.close()
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE posted")


def _post(sql: str, params: list[Any] | None = None) -> None:
    with cast("DatabaseWrapper", connection).posting_cursor() as cursor:
        cursor.execute(sql, params)


def _own() -> Connection:
    connection.ensure_connection()
    return cast("Connection", connection.connection)


def _found() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT what FROM posted ORDER BY what")
        return [what for (what,) in cursor.fetchall()]


class TestAPostedStatement:
    def test_is_done_before_what_follows_on_its_connection(self) -> None:
        _post("INSERT INTO posted VALUES (%s); INSERT INTO posted VALUES (%s)", ["it's", "%s"])
        assert _found() == ["%s", "it's"]

    def test_is_done_though_its_process_ends_at_once(self) -> None:
        conninfo = connections.direct_conninfo()
        code = (
            "import os, sys; from postgres.backend.trips import Connection;"
            "one = Connection.connect(sys.argv[1], autocommit=True); one.post('NOTIFY posted'); os._exit(0)"
        )
        with psycopg.connect(conninfo, autocommit=True) as other:
            other.execute("LISTEN posted")
            subprocess.run([sys.executable, "-c", code, conninfo], check=True)
            assert len(list(other.notifies(timeout=10, stop_after=1))) == 1

    def test_may_be_larger_than_the_kernel_holds_for_a_socket(self) -> None:
        _post("INSERT INTO posted VALUES (%s)", ["x" * 20_000_000])
        with connection.cursor() as cursor:
            cursor.execute("SELECT length(what) FROM posted")
            assert cursor.fetchone() == (20_000_000,)

    def test_may_come_between_two_pages_of_a_cursor_and_before_a_copy(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO posted SELECT n::text FROM generate_series(1, 5000) AS n")
        with transaction.atomic(), _own().cursor("pages") as pages:
            pages.execute("SELECT what FROM posted")
            assert len(pages.fetchmany(10)) == 10
            _post("NOTIFY nobody")
            assert len(pages.fetchall()) == 4990
        _post("NOTIFY nobody")
        with _own().cursor() as own, own.copy("COPY posted TO STDOUT") as copy:
            assert sum(1 for _ in copy.rows()) == 5000

    def test_of_a_transaction_is_waited_for_and_rolled_back_with_it(self) -> None:
        _post("INSERT INTO posted VALUES ('before')")
        with transaction.atomic():
            _post("INSERT INTO posted VALUES ('as its first')")
            assert _found() == ["as its first", "before"]
            _post("INSERT INTO posted VALUES ('as its last')")
            transaction.set_rollback(True)
        assert _found() == ["before"]


class TestAFailure:
    def test_is_a_line_in_the_log_and_nobody_elses_error(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.WARNING, logger="postgres"):
            _post("SELECT 1/0")
            assert _found() == []
        assert [record.getMessage() for record in caplog.records] == [
            "A statement that nobody waited for failed: division by zero"
        ]

    def test_of_the_connection_is_found_by_the_statement_that_follows(self) -> None:
        _post("SELECT pg_terminate_backend(pg_backend_pid())")
        with pytest.raises(OperationalError):
            _found()
        connection.close()
        assert _found() == []


class TestThePool:
    def test_takes_a_connection_back_when_its_last_statement_has_ended(self) -> None:
        own = _own()
        _post("INSERT INTO posted SELECT pg_sleep(0.1)::text")
        connection.close()
        assert own.info.transaction_status == TransactionStatus.IDLE
        assert len(_found()) == 1

    def test_replaces_a_connection_that_was_lost_with_its_statement(self) -> None:
        _post("SELECT pg_terminate_backend(pg_backend_pid())")
        connection.close()
        assert _found() == []

    def test_hands_out_no_connection_that_the_server_has_just_closed(self) -> None:
        """It does not ask the ones that were used a moment ago, and looks whether they were closed."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            [pid] = cursor.fetchone()
        connection.close()
        with psycopg.connect(connections.direct_conninfo(), autocommit=True) as other:
            assert other.execute("SELECT pg_terminate_backend(%s, 10000)", [pid]).fetchone() == (True,)
        assert _found() == []
