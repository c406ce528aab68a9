"""Migrations on a farm at work: what they may lock, one at a time, and never in anybody's way."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from copy import deepcopy
from typing import Any

import django.db
import psycopg
import pytest
from django.contrib.postgres.operations import AddConstraintNotValid, RemoveIndexConcurrently
from django.core.management import CommandError, call_command
from django.db import connection, migrations, models
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.recorder import MigrationRecorder
from django.db.migrations.state import ProjectState

from jobfarm import command_line, database_health
from postgres import connections, reachability, schema
from postgres.errors import LockedOut
from scheduling.cluster import process_group
from scheduling.models import Cron
from tests import farm
from tests.operations import locks
from tests.operations.databases import empty_database, on, our_apps

FIRST = "0001_initial"
CHECK = models.CheckConstraint(name="n_is_small", condition=models.Q(priority__lt=1000))
INDEX = models.Index("kind", name="jobs_by_kind")


@pytest.fixture(scope="module")
def loader() -> MigrationLoader:
    """All migrations."""
    return MigrationLoader(None)


@pytest.fixture(scope="module")
def state(loader: MigrationLoader) -> ProjectState:
    """The tables as they are now."""
    return loader.project_state()


def _migration(*operations: Operation, atomic: bool = True) -> migrations.Migration:
    written = {"operations": list(operations), "atomic": atomic}
    made: migrations.Migration = type("Migration", (migrations.Migration,), written)("next", "jobs")
    return made


@pytest.mark.django_db
class TestTheRules:
    """No migration after an app's first breaks them; what they say is seen on some that would."""

    def test_are_kept_by_every_migration_of_tables_that_are_there(self, loader: MigrationLoader) -> None:
        """An exception says why it may: `is_safe_because = "the table has one row"` in the migration."""
        found = {
            f"{app}.{name}": faults
            for app, name in loader.graph.nodes
            if app in our_apps()
            and name != FIRST
            and not getattr(loader.graph.nodes[app, name], "is_safe_because", None)
            and (faults := list(locks.faults(_sql(loader, app, name))))
        }
        assert found == {}

    FAULTS = (
        (migrations.AddIndex("job", INDEX), "AddIndexInUse"),
        (migrations.RemoveIndex("job", "jobs_retries"), "RemoveIndexConcurrently"),
        (migrations.AlterField("job", "limit_key", models.TextField(null=True, db_collation="C")), "rewritten"),
        (migrations.AlterField("job", "limit_key", models.CharField(max_length=50, default="")), "NOT VALID"),
        (migrations.AddConstraint("job", CHECK), "AddConstraintNotValid"),
        (migrations.AddConstraint("job", models.UniqueConstraint(name="u", fields=["created_at"])), "USING INDEX"),
        (migrations.RemoveField("job", "limit_key"), "still use it"),
        (migrations.RenameField("job", "limit_key", "stage"), "still use it"),
        (migrations.DeleteModel("Share"), "still use it"),
        (migrations.RunSQL("UPDATE jobs_job SET priority = 0"), "by steps"),
        (migrations.RunSQL("ALTER TABLE jobs_job ADD COLUMN x integer NOT NULL"), "give it a default"),
        (migrations.RunSQL("ALTER TABLE jobs_job ADD COLUMN x uuid DEFAULT gen_random_uuid()"), "rewritten"),
    )

    @pytest.mark.parametrize(("operation", "instead"), FAULTS)
    def test_find(self, state: ProjectState, operation: Operation, instead: str) -> None:
        found = list(locks.faults(locks.sql_of(_migration(operation), state)))
        assert any(instead in fault for fault in found), found

    FINE = (
        (migrations.AddField("job", "x", models.TextField(null=True)), True),
        (migrations.AddField("job", "x", models.IntegerField(default=0)), True),
        (migrations.AlterField("job", "limit_key", models.CharField(max_length=50, null=True, help_text="x")), True),
        (schema.AddIndexInUse("job", INDEX), False),
        (RemoveIndexConcurrently("job", "jobs_retries"), False),
        (AddConstraintNotValid("job", CHECK), True),
        (
            migrations.CreateModel(
                "Fresh",
                [("id", models.BigAutoField(primary_key=True)), ("n", models.IntegerField(db_index=True))],
                options={"constraints": [models.CheckConstraint(name="n", condition=models.Q(n__gt=0))]},
            ),
            True,
        ),
    )

    @pytest.mark.parametrize(("operation", "atomic"), FINE)
    def test_let_pass(self, state: ProjectState, operation: Operation, atomic: bool) -> None:
        assert list(locks.faults(locks.sql_of(_migration(operation, atomic=atomic), state))) == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.landing
class TestTheHistory:
    def test_can_be_taken_back_and_leaves_nothing_behind(self) -> None:
        """What a migration's SQL file makes, its other half takes away."""
        with empty_database() as name, on(name):
            history: dict[str, list[set[str]]] = {app: [set()] for app in our_apps()}
            left: list[str] = []

            def look(step: str, migration: Any = None, fake: bool | None = False, /) -> None:
                if migration is None or migration.app_label not in history or not step.endswith("_success"):
                    return
                known, now = history[migration.app_label], _schema(migration.app_label)
                if step == "apply_success":
                    known.append(now)
                elif known.pop() and now != known[-1]:
                    left.extend(f"{migration}: {one}" for one in now ^ known[-1])
                    known[-1] = now  # the same once

            executor = MigrationExecutor(connection, look)
            executor.migrate([node for node in executor.loader.graph.leaf_nodes() if node[0] in our_apps()])
            assert _functions() > 0
            executor = MigrationExecutor(connection, look)
            executor.migrate([(app, None) for app in sorted(our_apps())])
            assert (left, _functions()) == ([], 0)
            ours = tuple(f"{app}_" for app in our_apps())
            assert [table for table in connection.introspection.table_names() if table.startswith(ours)] == []


def _sql(loader: MigrationLoader, app: str, name: str) -> list[str]:
    return locks.sql_of(loader.graph.nodes[app, name], loader.project_state((app, name), at_end=False))


@pytest.fixture
def table(transactional_db: None) -> Iterator[str]:
    """A table in use: somebody reads it in a transaction that stays open."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE test_in_use AS SELECT 1 AS n")
    yield "test_in_use"
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE test_in_use")


@pytest.fixture
def other() -> Iterator["psycopg.Connection[Any]"]:
    """Somebody else's session."""
    with psycopg.connect(connections.conninfo()) as session:
        yield session


class TestChanging:
    def test_gives_up_a_lock_soon_lets_others_by_and_comes_again(
        self, table: str, other: "psycopg.Connection[Any]", monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An ALTER TABLE that waits keeps all away who come after it, readers too."""
        monkeypatch.setattr(schema, "LOCK_TIMEOUT_MS", 100)
        other.execute(f"SELECT * FROM {table}")
        output: list[str] = []

        def change() -> None:
            with connection.cursor() as cursor:
                cursor.execute(f"ALTER TABLE {table} ADD COLUMN m integer")

        def report(line: str) -> None:
            output.append(line)
            other.commit()  # the other one is done meanwhile

        with schema.changing():
            schema.patiently(change, attempts=3, pause_s=0, report=report)
        assert output == ["A table is in use; trying again (1 of 3)"]
        assert "m" in _columns(table)

    def test_is_told_when_a_table_never_comes_free(
        self, table: str, other: "psycopg.Connection[Any]", monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(schema, "LOCK_TIMEOUT_MS", 50)
        other.execute(f"LOCK TABLE {table}")

        def change() -> None:
            with connection.cursor() as cursor:
                cursor.execute(f"ALTER TABLE {table} ADD COLUMN m integer")

        with schema.changing(), pytest.raises(LockedOut, match="at all of 2 attempts"):
            schema.patiently(change, attempts=2, pause_s=0, report=lambda _: None)

    def test_of_what_jobs_may_hold_keeps_no_table_while_it_waits_for_another(
        self, transactional_db: None, other: "psycopg.Connection[Any]"
    ) -> None:
        """A submit locks records and then the living, a claim the other way round: one of them waited in a circle."""

        def migrate() -> None:
            with connections.released():
                MigrationExecutor(connection).migrate([("jobs", "0038_rows_that_can_be_read")])

        MigrationExecutor(connection).migrate([("jobs", "0037_what_it_may_take")])
        other.execute("LOCK TABLE jobs_job IN ROW EXCLUSIVE MODE")
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(migrate)
            try:
                farm.until(_waits_for_the_records, what="the migration")
                other.execute("SET LOCAL lock_timeout = '500ms'")
                other.execute("LOCK TABLE jobs_live IN ROW EXCLUSIVE MODE")
            finally:
                other.rollback()
                done.result(20)

    def test_is_done_by_one_machine_after_the_other(self, transactional_db: None) -> None:
        inside, go_on = threading.Event(), threading.Event()
        order: list[str] = []

        def first() -> None:
            with connections.released(), schema.changing():
                inside.set()
                go_on.wait(20)
                order.append("first")

        def second() -> None:
            with connections.released(), schema.changing():
                order.append("second")

        with ThreadPoolExecutor(2) as pool:
            one = pool.submit(first)
            assert inside.wait(20)
            two = pool.submit(second)
            farm.until(lambda: _waiting_for_their_turn() == 1, what="the second machine")
            go_on.set()
            one.result(20)
            two.result(20)
        assert order == ["first", "second"]

    def test_leaves_the_session_settings_of_others_alone(self, transactional_db: None) -> None:
        with schema.changing(), connection.cursor() as cursor:
            cursor.execute("SHOW lock_timeout")
            assert cursor.fetchone() == (f"{schema.LOCK_TIMEOUT_MS // 1000}s",)
        with connection.cursor() as cursor:
            cursor.execute("SHOW lock_timeout")
            assert cursor.fetchone() == ("0",)

    def test_goes_past_the_pooler(self, transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
        direct = psycopg.conninfo.conninfo_to_dict(connections.conninfo())
        name = connection.settings_dict["NAME"]
        url = (
            f"postgresql://{direct['user']}@/{name}?host={direct['host']}&port={direct['port']}&application_name=direct"
        )
        monkeypatch.setenv("DATABASE_DIRECT_URL", url)
        with schema.changing(), connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('application_name'), current_database()")
            assert cursor.fetchone() == ("direct", name)
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('application_name')")
            assert cursor.fetchone() != ("direct",)


def _waits_for_the_records() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT FROM pg_locks WHERE relation = 'jobs_job'::regclass AND NOT granted")
        return cursor.fetchone() is not None


@contextmanager
def a_process_of_its_own() -> Iterator[None]:
    """What a cluster sets for its connections is not for the tests that come after."""
    with pytest.MonkeyPatch.context() as patch, closing(connection):
        connection.close()
        patch.setattr(process_group, "_own_options", {})
        patch.setattr(django.db.connections["default"], "settings_dict", deepcopy(connection.settings_dict))
        yield


class TestTheCommand:
    def test_says_in_a_sentence_that_a_table_stays_in_use(
        self, transactional_db: None, other: "psycopg.Connection[Any]", monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(schema, "LOCK_TIMEOUT_MS", 50)
        other.execute("LOCK TABLE django_migrations")
        with pytest.raises(CommandError, match="doctor"):
            call_command("migrate", attempts=1, interactive=False, verbosity=0)

    @pytest.fixture
    def later(self, transactional_db: None) -> Iterator[None]:
        """A database that code of a later version has migrated, with a cron of its own, and an index less."""
        recorder = MigrationRecorder(connection)
        recorder.record_applied("jobs", "9999_later")
        Cron.objects.create(name="of the later version", function="x.y", schedule="every 1 h")
        connection.cursor().execute("ALTER INDEX jobs_running RENAME TO jobs_running_later")
        yield
        connection.cursor().execute("ALTER INDEX jobs_running_later RENAME TO jobs_running")
        recorder.migration_qs.filter(name="9999_later").delete()

    @pytest.mark.usefixtures("later")
    def test_says_so_and_writes_nothing_where_the_database_is_of_a_later_version(
        self, capfd: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(CommandError, match=r"jobs\.9999_later"):
            call_command("migrate", interactive=False, verbosity=0)
        assert not Cron.objects.filter(retired_at__isnull=False).exists()
        findings = [*database_health.migrations(), *database_health.schema()]
        assert ["9999_later" in one.remedy for one in findings] == [True]
        with a_process_of_its_own():
            assert command_line.run(["manage.py", "cluster", "--mutations", "--once", "--skip-checks"]) is None
        assert "jobs.9999_later" in capfd.readouterr().err

    @pytest.mark.parametrize("app", ["jobs", "chat", "auth", "removed"])
    def test_takes_rows_that_a_squashed_migration_left_for_no_later_version_but_for_the_farms_own(
        self, transactional_db: None, app: str
    ) -> None:
        recorder = MigrationRecorder(connection)
        recorder.record_applied(app, "9999_squashed_away")
        try:
            assert (reachability.later_version() is None) == (app != "jobs")
        finally:
            recorder.migration_qs.filter(name="9999_squashed_away").delete()


class TestAnIndexOnATableInUse:
    def test_replaces_what_an_interrupted_run_left(self, transactional_db: None, state: ProjectState) -> None:
        index = models.Index("kind", name="jobs_test_index")
        with connection.cursor() as cursor:
            cursor.execute("CREATE INDEX jobs_test_index ON jobs_job (queue)")
        try:
            migration = _migration(schema.AddIndexInUse("job", index), atomic=False)
            with connection.schema_editor(atomic=False) as editor:
                migration.apply(state.clone(), editor)
            with connection.cursor() as cursor:
                found = connection.introspection.get_constraints(cursor, "jobs_job")["jobs_test_index"]
            assert found["columns"] == ["kind"]
        finally:
            with connection.cursor() as cursor:
                cursor.execute("DROP INDEX jobs_test_index")


def _schema(app: str) -> set[str]:
    """What an app has in the database: columns, indexes, constraints, triggers and functions."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT format('%%s.%%s %%s %%s %%s', table_name, column_name, data_type, is_nullable, column_default)
            FROM information_schema.columns WHERE table_schema = 'public' AND table_name LIKE %(of_app)s
            UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename LIKE %(of_app)s
            UNION ALL SELECT format('%%s %%s', conname, pg_get_constraintdef(oid)) FROM pg_constraint
            WHERE connamespace = 'public'::regnamespace AND conrelid::regclass::text LIKE %(of_app)s
            UNION ALL SELECT pg_get_triggerdef(oid) FROM pg_trigger
            WHERE NOT tgisinternal AND tgrelid::regclass::text LIKE %(of_app)s
            UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc
            WHERE pronamespace = 'public'::regnamespace AND proname LIKE %(of_app)s
            """,
            {"of_app": f"{app}\\_%"},
        )
        return {definition for (definition,) in cursor.fetchall()}


def _functions() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace")
        return int(cursor.fetchone()[0])


def _columns(table: str) -> list[str]:
    with connection.cursor() as cursor:
        return [column.name for column in connection.introspection.get_table_description(cursor, table)]


def _waiting_for_their_turn() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
        return int(cursor.fetchone()[0])
