"""Statements kept in files."""

from types import SimpleNamespace
from typing import Any

import pytest
from django.db import IntegrityError, ProgrammingError, connection, transaction
from django.test.utils import CaptureQueriesContext
from psycopg.adapt import PyFormat, Transformer
from psycopg.types.json import Jsonb
from pytest_django import DjangoAssertNumQueries

from postgres import statements
from postgres.backend.trips import adapters_of
from postgres.statements import Statement
from tests.explained import explain

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("new_pool")]

DOUBLE = statements.load("tests.postgres.integration", "double")


def run(number: int = 21) -> list[Any]:
    return DOUBLE.run({"number": number, "document": Jsonb({"a": [1, None]}), "names": ["x", "ü"]})


def prepared() -> list[tuple[Any, ...]]:
    """The statement's plans on this connection: the types of their parameters, and how often each was run."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT parameter_types::text, generic_plans FROM pg_prepared_statements WHERE statement LIKE %s",
            [f"/* {DOUBLE.name} */%"],
        )
        return list(cursor.fetchall())


class TestAStatement:
    def test_is_read_from_its_file_without_its_caption(self) -> None:
        assert DOUBLE.name == "tests.postgres.integration.double"
        assert DOUBLE.sql.startswith("/* tests.postgres.integration.double */ SELECT")
        assert statements.load("tests.postgres.integration", "double") is DOUBLE

    def test_that_is_missing_says_so(self) -> None:
        with pytest.raises(FileNotFoundError):
            statements.load("tests.postgres.integration", "triple")

    def test_returns_rows_with_names_and_python_values(self) -> None:
        (row,) = run()
        assert row._asdict() == {"doubled": 42, "document": {"a": [1, None]}, "names": ["x", "ü"], "share": "100 %"}

    @pytest.mark.parametrize("texts", [[b""], [b"\\x00\"{,}'", b"\x00\xff" * 500], []])
    def test_takes_bytes_as_they_are(self, texts: list[bytes]) -> None:
        given = Statement(name="x", sql="SELECT %(bodies)s::bytea[] AS bodies")
        assert given.run({"bodies": statements.Binaries(texts)})[0].bodies == texts

    def test_sends_bytes_in_their_own_size(self) -> None:
        """As text each would be two to four."""
        body = b'\\"' * 50_000
        connection.ensure_connection()
        raw: Any = connection.connection
        ours: Any = SimpleNamespace(connection=raw, adapters=adapters_of(raw))
        [sent] = Transformer(ours).dump_sequence([statements.Binaries([body])], [PyFormat.AUTO])
        assert len(body) < len(sent or b"") < len(body) + 100

    def test_without_a_result_returns_no_rows(self) -> None:
        assert Statement(name="x", sql="SET LOCAL work_mem = '4MB'").run() == []

    def test_is_planned_once_for_small_and_large_numbers(self) -> None:
        for number in (1, 40_000, 2**40):
            run(number)
        assert prepared() == [("{bigint,jsonb,text[]}", 3)]

    def test_is_prepared_inside_a_transaction_too(self) -> None:
        with transaction.atomic():
            run()
            run()
            assert prepared() == [("{bigint,jsonb,text[]}", 2)]

    def test_is_part_of_the_callers_transaction(self) -> None:
        write = Statement(
            name="x",
            sql="INSERT INTO django_migrations (app, name, applied) VALUES (%(app)s, 'x', now()) RETURNING app",
        )
        with transaction.atomic():
            assert write.run({"app": "mine"})[0].app == "mine"
            transaction.set_rollback(True)
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM django_migrations WHERE app = 'mine'")
            assert cursor.fetchone() == (0,)

    def test_raises_djangos_errors(self) -> None:
        with pytest.raises(IntegrityError):
            Statement(name="x", sql="INSERT INTO django_migrations (app) VALUES (NULL)").run()
        with pytest.raises(ProgrammingError):
            DOUBLE.run({"number": 1})

    def test_is_counted_and_can_be_watched(self, django_assert_num_queries: DjangoAssertNumQueries) -> None:
        with django_assert_num_queries(1):
            run()
        with CaptureQueriesContext(connection) as captured:
            run(7)
        assert "7::bigint * 2 AS doubled" in captured[0]["sql"]

    def test_passes_djangos_wrappers(self) -> None:
        seen: list[str] = []

        def watch(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
            seen.append(sql)
            return execute(sql, params, many, context)

        with connection.execute_wrapper(watch):
            run()
        assert seen == [DOUBLE.sql]

    def test_survives_a_rollback_which_forgets_what_was_prepared(self) -> None:
        with transaction.atomic():
            run()
            transaction.set_rollback(True)
        assert run()[0].doubled == 42

    def test_is_explained_as_it_will_be_run(self) -> None:
        """On a table so large that the index is the way whatever the statistics say."""
        with connection.cursor() as cursor:
            cursor.execute("CREATE TEMPORARY TABLE thing AS SELECT id FROM generate_series(1, 10000) AS id")
            cursor.execute("CREATE UNIQUE INDEX ON thing (id); ANALYZE thing")
        find = Statement(name="x", sql="SELECT id FROM thing WHERE id = %(id)s AND '%%' <> ''")
        plan = explain(find, {"id": 1})
        assert plan["Plan"]["Index Cond"] == "(id = $1)"
        assert "Shared Hit Blocks" in plan["Plan"]
        assert explain(find, {"id": 2})["Plan"]["Actual Loops"] == 1
