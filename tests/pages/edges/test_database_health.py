"""What is said of a database that is ill: each ill is planted, and named with what to do."""

import threading
from collections.abc import Iterator

import pytest
from django.db import connection

from jobfarm import database_health, health
from jobfarm.findings import Finding, Level
from postgres import statements

pytestmark = pytest.mark.django_db


def do(sentence: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sentence)


class TestTheObjectsOfTheTables:
    def test_are_all_there_after_the_migrations(self) -> None:
        assert database_health.missing_objects() == []

    def test_are_expected_as_far_as_anybody_named_them(self) -> None:
        """What a migration makes beside models and SQL files would not be missed."""
        rows = statements.load("jobfarm", "schema_objects").run()
        assert {row.name for row in rows if row.what == "trigger"} == set(database_health.triggers())
        named = {name for _, name in database_health.named_indexes()}
        columns = set(database_health.indexed_columns())
        of_models = {table for table, _ in columns}
        others = [row for row in rows if row.what == "index" and row.name not in named and row.of_table in of_models]
        assert [row.name for row in others if (row.of_table, row.first_column) not in columns] == []

    def test_that_are_missing_are_named(self) -> None:
        do("DROP INDEX jobs_running")
        do("ALTER TABLE jobs_outcome DISABLE TRIGGER an_ended_job_is_never_changed")
        [finding] = database_health.schema()
        assert finding.level is Level.ERROR
        assert "index jobs_running of jobs_live, trigger an_ended_job_is_never_changed" in finding.sentence


class TestAutovacuum:
    def test_is_said_to_be_off_for_a_table_of_ours(self) -> None:
        assert list(database_health.autovacuum()) == []
        do("ALTER TABLE jobs_job SET (autovacuum_enabled = false)")
        assert [finding.sentence for finding in database_health.autovacuum()] == ["Autovacuum is off for jobs_job."]


class TestACheck:
    def test_that_hangs_is_a_finding(self) -> None:
        def stuck() -> Iterator[Finding]:
            threading.Event().wait()
            yield from ()

        [finding] = health.bounded(stuck, within_s=0.1)
        assert finding.sentence == "The check of stuck did not end within 0.1 s."

    def test_that_fails_is_a_finding_beside_what_it_said_before(self) -> None:
        def wrong() -> Iterator[Finding]:
            yield Finding(level=Level.FINE, sentence="So far.")
            raise ValueError("why")

        sentences = [(one.sentence, one.remedy) for one in health.bounded(wrong)]
        assert sentences == [("So far.", ""), ("The check of wrong failed: ValueError.", "why")]
