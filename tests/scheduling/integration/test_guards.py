"""The two guards: they fail loudly, and say what to do."""

import socket

import pytest
from django.contrib.auth.models import Group

from scheduling import guards, operations as scheduling
from scheduling.models import ScheduledFunction
from tests.scheduling.integration import sample

pytestmark = pytest.mark.django_db(transaction=True)


def _ended(row: ScheduledFunction) -> ScheduledFunction:
    scheduling.run_due()
    return ScheduledFunction.objects.get(pk=row.pk)


class TestAnOutsideConnectionInAMutation:
    def test_is_refused_with_the_function_and_the_remedy(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            ended = _ended(scheduling.run_after(0, sample.connect_somewhere, port=port))
        assert ended.error_class == "scheduling.errors.OutsideConnection"
        assert ended.error is not None
        assert "tests.scheduling.integration.sample.connect_somewhere" in ended.error
        assert "127.0.0.1" in ended.error
        assert "run_after" in ended.error

    def test_is_refused_behind_a_library(self) -> None:
        ended = _ended(scheduling.run_after(0, sample.fetch_somewhere, url="http://127.0.0.1:9/"))
        assert ended.error_class == "scheduling.errors.OutsideConnection"

    def test_is_refused_when_the_mutation_is_called(self) -> None:
        with pytest.raises(scheduling.OutsideConnection):
            sample.connect_somewhere(port=9)

    def test_is_let_through_where_the_guards_are_off(self, settings: object) -> None:
        settings.SCHEDULING_GUARDS = False  # type: ignore[attr-defined]
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            assert _ended(scheduling.run_after(0, sample.connect_somewhere, port=port)).status == "success"

    def test_is_no_matter_outside_of_one(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
            pass


class TestAWriteInAnAction:
    def test_is_refused_with_the_function_and_the_remedy(self) -> None:
        ended = _ended(scheduling.run_after(0, sample.write_directly, name="no"))
        assert ended.error_class == "scheduling.errors.WriteOutsideMutation"
        assert ended.error is not None
        assert "tests.scheduling.integration.sample.write_directly" in ended.error
        assert "@mutation" in ended.error
        assert not Group.objects.exists()

    def test_is_let_through_where_the_action_declares_it(self) -> None:
        assert _ended(scheduling.run_after(0, sample.write_directly_as_declared, name="yes")).status == "success"
        assert Group.objects.get().name == "yes"

    def test_is_let_through_where_the_guards_are_off(self, settings: object) -> None:
        settings.SCHEDULING_GUARDS = False  # type: ignore[attr-defined]
        assert _ended(scheduling.run_after(0, sample.write_directly, name="yes")).status == "success"


class TestAStatement:
    @pytest.mark.parametrize(
        "statement",
        [
            "INSERT INTO t VALUES (1)",
            "  update t set a = 1",
            "DELETE FROM t",
            "/* note */ MERGE INTO t USING s ON true WHEN MATCHED THEN DELETE",
            "-- note\nTRUNCATE t",
            "WITH gone AS (DELETE FROM t RETURNING *) SELECT * FROM gone",
            "WITH x AS (SELECT 1) UPDATE t SET a = 1",
            "WITH x AS (UPDATE t SET a = 1 RETURNING a) SELECT 1",
            "SELECT * INTO TEMP copy FROM t",
            "COPY t FROM STDIN",
            "COPY t(a, b) FROM STDIN",
            "COPY (DELETE FROM t RETURNING a) TO STDOUT",
            "SELECT 1; DELETE FROM t",
            "EXPLAIN ANALYZE DELETE FROM t",
            "PREPARE p AS INSERT INTO t VALUES (1)",
            "COMMENT ON TABLE t IS 'ours'",
            "CREATE TABLE t (id int)",
            "CALL p()",
        ],
    )
    def test_that_writes_is_known(self, statement: str) -> None:
        assert guards.is_write(statement)

    @pytest.mark.parametrize(
        "statement",
        [
            "SELECT * FROM t WHERE a = 'INSERT INTO t'",
            'SELECT "update" FROM "delete"',
            "SELECT * FROM t FOR UPDATE SKIP LOCKED",
            "SELECT * FROM t FOR NO KEY UPDATE",
            "WITH x AS (SELECT * FROM t FOR UPDATE) SELECT * FROM x",
            "WITH x AS (SELECT * FROM t FOR NO KEY UPDATE OF t) SELECT * FROM x",
            "COPY t TO STDOUT",
            "COPY (SELECT a FROM t) TO STDOUT",
            "SELECT 'a;DELETE FROM t'; SELECT 2;",
            "EXPLAIN SELECT * FROM t FOR UPDATE OF t",
            "SAVEPOINT s",
            "BEGIN",
            "SELECT 1 -- DELETE FROM t",
            "SET LOCAL lock_timeout = 1",
        ],
    )
    def test_that_only_reads_is_known(self, statement: str) -> None:
        assert not guards.is_write(statement)
