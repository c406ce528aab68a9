"""What is said of a database that is ill: each ill is planted, and named with what to do."""

import pytest
from django.db import connection

from jobfarm import schema_objects
from postgres import statements

pytestmark = pytest.mark.django_db


def do(sentence: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sentence)


class TestTheObjectsOfTheTables:
    def test_are_all_there_after_the_migrations(self) -> None:
        assert schema_objects.missing() == []

    def test_are_expected_as_far_as_anybody_named_them(self) -> None:
        """What a migration makes beside models and SQL files would not be missed."""
        rows = statements.load("jobfarm", "schema_objects").run()
        assert {row.name for row in rows if row.what == "trigger"} == set(schema_objects.triggers())
        named = {name for _, name in schema_objects.named_indexes()}
        columns = set(schema_objects.indexed_columns())
        of_models = {table for table, _ in columns}
        others = [
            row for row in rows if row.what == "index" and row.name not in named and row.of_table in of_models
        ]
        assert [row.name for row in others if (row.of_table, row.first_column) not in columns] == []
