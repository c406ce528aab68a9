"""Statements that go to the server together."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import (
    IntegrityError,
    InterfaceError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    connection,
    transaction,
)
from django.db.transaction import TransactionManagementError

from postgres import statements
from postgres.backend.trips import FIRST_MOMENT, LAST_MOMENT, is_beyond_python
from postgres.statements import Statement
from tests import wire

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("new_pool")]

DOUBLE = Statement(name="x", sql="SELECT %(n)s::bigint * 2 AS doubled, %(n)s::bigint AS n")
INSERT = Statement(name="x", sql="INSERT INTO thing (id) VALUES (%(id)s::bigint) RETURNING id")
COUNT = Statement(name="x", sql="SELECT count(*) AS things FROM thing")
QUIET = Statement(name="x", sql="UPDATE thing SET id = id + %(by)s::bigint")
BROKEN = Statement(name="x", sql="SELECT nothing FROM nowhere")


@pytest.fixture(autouse=True)
def things() -> Iterator[None]:
    """A table of numbers, each once."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE thing (id bigint PRIMARY KEY)")
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE thing")


def things_there() -> int:
    return int(COUNT.run()[0].things)


def known() -> int:
    """How many statements the server keeps for this connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_prepared_statements")
        return int(cursor.fetchone()[0])


class TestStatementsTogether:
    def test_return_the_rows_of_each_in_order(self) -> None:
        calls: list[statements.Call] = [(INSERT, {"id": 1}), (QUIET, {"by": 4}), (DOUBLE, {"n": 21}), (COUNT, {})]
        inserted, quiet, doubled, counted = statements.together(calls)
        assert [row._asdict() for row in doubled] == [{"doubled": 42, "n": 21}]
        assert (inserted[0].id, quiet, counted[0].things) == (1, [], 1)

    def test_are_one_round_trip_and_so_is_the_begin_of_their_transaction(self) -> None:
        calls: list[statements.Call] = [(INSERT, {"id": 1}), (COUNT, {})]
        with transaction.atomic(), wire.traced() as first:
            statements.together(calls)
            transaction.set_rollback(True)
        statements.together([(COUNT, {})])
        with transaction.atomic(), wire.traced() as again:
            assert statements.together([(COUNT, {}), (COUNT, {})])[1][0].things == 0
        assert (first.round_trips, first.count("Parse")) == (1, 3)  # the BEGIN is not kept
        assert again == ["Parse", *["Bind", "Describe", "Execute"] * 3, "Sync"]

    def test_of_which_there_is_one_outside_of_a_transaction_are_as_short_as_can_be(self) -> None:
        DOUBLE.run({"n": 1})
        with wire.traced() as sent:
            DOUBLE.run({"n": 2})
        assert sent == ["Bind", "Describe", "Execute", "Sync"]

    def test_outside_of_a_transaction_are_one(self) -> None:
        with pytest.raises(IntegrityError):
            statements.together([(INSERT, {"id": 1}), (INSERT, {"id": 2}), (INSERT, {"id": 1})])
        assert things_there() == 0
        statements.together([(INSERT, {"id": 1}), (INSERT, {"id": 2})])
        assert things_there() == 2

    def test_that_fail_leave_a_transaction_that_can_only_be_rolled_back(self) -> None:
        with pytest.raises(IntegrityError), transaction.atomic():
            statements.together([(INSERT, {"id": 1}), (INSERT, {"id": 1}), (DOUBLE, {"n": 1})])
        with transaction.atomic():
            with pytest.raises(IntegrityError), transaction.atomic(savepoint=False):
                statements.together([(INSERT, {"id": 1}), (INSERT, {"id": 1})])
            with pytest.raises(TransactionManagementError):
                COUNT.run()
        assert things_there() == 0

    def test_that_fail_within_a_savepoint_cost_that_alone(self) -> None:
        with transaction.atomic():
            INSERT.run({"id": 1})
            with pytest.raises(IntegrityError), transaction.atomic():
                statements.together([(INSERT, {"id": 2}), (INSERT, {"id": 1})])
            INSERT.run({"id": 3})
        assert things_there() == 2

    @pytest.mark.parametrize("place", [0, 1, 2])
    def test_of_which_one_cannot_be_prepared_can_be_run_again_when_it_can(self, place: int) -> None:
        calls: list[statements.Call] = [(DOUBLE, {"n": 1}), (COUNT, {})]
        calls.insert(place, (BROKEN, {}))
        for _ in range(2):
            with pytest.raises(Exception, match="nowhere"):
                statements.together(calls)
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE nowhere AS SELECT 7 AS nothing")
        try:
            assert statements.together(calls)[place][0].nothing == 7
        finally:
            with connection.cursor() as cursor:
                cursor.execute("DROP TABLE nowhere")

    def test_see_what_those_before_them_wrote_and_what_others_committed_meanwhile(self) -> None:
        """READ COMMITTED: the second one waits for a row, and the third begins after that."""
        counted = statements.together([(INSERT, {"id": 1}), (COUNT, {}), (INSERT, {"id": 2}), (COUNT, {})])
        assert [counted[1][0].things, counted[3][0].things] == [1, 2]

    def test_with_more_to_send_and_to_return_than_the_network_holds_do_not_wait_for_each_other(self) -> None:
        echo = Statement(name="x", sql="SELECT %(text)s::text AS text")
        text = "x" * 4_000_000
        assert [rows[0].text == text for rows in statements.together([(echo, {"text": text})] * 8)] == [True] * 8

    def test_are_not_prepared_where_that_is_turned_off(self) -> None:
        connection.ensure_connection()
        raw: Any = connection.connection
        before, raw.prepare_threshold = raw.prepare_threshold, None
        try:
            there = known()
            assert statements.together([(DOUBLE, {"n": 1}), (COUNT, {})])[0][0].doubled == 2
            assert known() == there
        finally:
            raw.prepare_threshold = before

    def test_are_planned_once_for_each_set_of_types(self) -> None:
        there = known()
        for n in (1, 2**40, "3"):
            DOUBLE.run({"n": n})
        statements.together([(DOUBLE, {"n": 1}), (DOUBLE, {"n": 2})])
        assert known() == there + 2

    def test_whose_plan_returns_other_columns_now_fail_once(self) -> None:
        """As when a table is changed while a process that reads all of its columns works on."""
        every = Statement(name="x", sql="SELECT * FROM thing")
        INSERT.run({"id": 1})
        assert every.run()[0]._fields == ("id",)
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE thing ADD COLUMN more int")
        with pytest.raises(NotSupportedError, match="must not change result type"):
            every.run()
        assert every.run()[0]._fields == ("id", "more")

    def test_keep_their_plans_when_a_transaction_is_rolled_back_in_which_others_were_watched(self) -> None:
        """psycopg has the server forget all plans then, if it knows of one of its own."""
        DOUBLE.run({"n": 1})
        with transaction.atomic(), connection.execute_wrapper(lambda execute, *args: execute(*args)):
            COUNT.run()
            transaction.set_rollback(True)
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        assert DOUBLE.run({"n": 1})[0].doubled == 2

    def test_whose_plan_the_server_does_not_have_any_more_fail_once(self) -> None:
        assert DOUBLE.run({"n": 1})[0].doubled == 2
        with connection.cursor() as cursor:
            cursor.execute("DEALLOCATE ALL")
        with pytest.raises(ProgrammingError, match="does not exist"):
            DOUBLE.run({"n": 1})
        assert DOUBLE.run({"n": 1})[0].doubled == 2

    def test_of_a_server_that_ends_meanwhile_raise_and_the_connection_is_not_used_again(self) -> None:
        own = Statement(name="x", sql="SELECT pg_terminate_backend(pg_backend_pid())")
        with pytest.raises((OperationalError, InterfaceError)):
            statements.together([(INSERT, {"id": 1}), (own, {}), (COUNT, {})])
        connection.close()
        assert things_there() == 0

    @pytest.mark.parametrize(
        ("moment", "shown"),
        [
            ("infinity", LAST_MOMENT),
            ("-infinity", FIRST_MOMENT),
            ("0044-03-15 12:00 BC", FIRST_MOMENT),
            ("20000-01-01", LAST_MOMENT),
        ],
    )
    def test_read_a_moment_that_python_has_not_as_one_at_its_calendars_end(self, moment: str, shown: datetime) -> None:
        whole = datetime(2024, 5, 6, 7, 8, 9, 500000, tzinfo=UTC)
        rows = Statement(name="x", sql="SELECT %(moment)s::timestamptz AS moment, %(whole)s::timestamptz AS whole")
        for _ in range(2):
            [[row]] = statements.together([(rows, {"moment": moment, "whole": whole})])
            assert tuple(row) == (shown, whole)
        with connection.cursor() as cursor:
            cursor.execute("SELECT %s::timestamptz, %s::timestamptz", [moment, whole])
            assert cursor.fetchone() == (shown, whole)
        assert is_beyond_python(shown) > is_beyond_python(whole)

    def test_lacking_a_parameter_raise_before_anything_is_sent(self) -> None:
        with pytest.raises(Exception, match="a parameter is missing: 'n'"):
            statements.together([(INSERT, {"id": 1}), (DOUBLE, {})])
        assert things_there() == 0
