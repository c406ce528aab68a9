"""A write past a mutation is refused in an action, in each of the ways that Python and psycopg have to do it."""

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import Group
from django.db import connection, connections

from scheduling import operations as scheduling
from scheduling.models import ScheduledFunction
from tests.scheduling.integration import unsafe

pytestmark = pytest.mark.django_db(transaction=True)

WRITES = [
    "write_async", "write_async_with_asgiref", "write_in_a_thread", "write_in_a_new_pool",
    "write_in_a_thread_that_waits", "write_by_to_thread", "write_by_copy", "write_by_the_drivers_cursor",
    "write_many_by_the_drivers_cursor", "write_by_the_drivers_connection", "write_on_a_connection_of_its_own",
    "write_on_an_async_connection_of_its_own", "write_by_another_alias", "write_by_a_function",
    "write_by_a_second_statement",
]  # fmt: skip
FUNCTION = """CREATE FUNCTION make_group_of_test(name text) RETURNS void LANGUAGE sql
    AS 'INSERT INTO auth_group (name) VALUES (name)'"""


@pytest.fixture(autouse=True)
def _other_ways(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A second alias for the same database, a thread that waits, and a function of SQL that writes."""
    databases = connections.settings
    unpooled = {"OPTIONS": databases["default"]["OPTIONS"] | {"pool": False}}
    monkeypatch.setitem(databases, "other", databases["default"] | unpooled)
    connections["other"].connect()
    unsafe.busy_threads.submit(int).result()
    with connection.cursor() as cursor:
        cursor.execute(FUNCTION)
    yield
    unsafe.close_connections_of_threads()
    with connection.cursor() as cursor:
        cursor.execute("DROP FUNCTION make_group_of_test")
    connections["other"].close()
    del connections["other"]


def _ended(name: str) -> ScheduledFunction:
    row = scheduling.run_after(0, unsafe.in_an_action, name=name)
    scheduling.run_due()
    return ScheduledFunction.objects.get(pk=row.pk)


class TestAnAction:
    @pytest.mark.parametrize("name", WRITES)
    def test_writes_in_no_other_way(self, name: str) -> None:
        ended = _ended(name)
        assert not Group.objects.exists()
        assert ended.error_class == "scheduling.errors.WriteOutsideMutation", ended.traceback
        assert ended.error is not None
        assert "tests.scheduling.integration.unsafe.in_an_action" in ended.error
        assert "@mutation" in ended.error

    @pytest.mark.parametrize("name", WRITES)
    def test_is_let_alone_where_the_guards_are_off(self, name: str, settings: object) -> None:
        settings.SCHEDULING_GUARDS = False  # type: ignore[attr-defined]
        assert _ended(name).status == "success"
        assert Group.objects.exists()

    @pytest.mark.parametrize("name", ["call_a_mutation_in_a_thread", "await_a_mutation", "schedule_in_a_thread"])
    def test_writes_by_mutations_from_anywhere(self, name: str) -> None:
        ended = _ended(name)
        scheduling.run_due()
        assert ended.status == "success", ended.traceback
        assert Group.objects.get().name == "yes"

    def test_takes_from_limits(self) -> None:
        ended = _ended("take_from_limits")
        assert ended.status == "success", ended.traceback

    def test_reads_in_every_way(self) -> None:
        Group.objects.create(name="one")
        ended = _ended("read_in_every_way")
        assert (ended.status, ended.result) == ("success", 4), ended.traceback

    def test_writes_to_the_databases_of_others(self) -> None:
        ended = _ended("write_to_a_database_elsewhere")
        assert ended.status == "success", ended.traceback

    @pytest.mark.parametrize("name", ["write_async", "write_in_a_thread_that_waits"])
    def test_leaves_nothing_behind_in_the_threads_that_it_used(self, name: str) -> None:
        assert _ended(name).status == "failed"
        getattr(unsafe, name)()
        assert Group.objects.get().name == "no"
