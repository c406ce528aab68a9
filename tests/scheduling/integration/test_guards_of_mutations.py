"""What a rollback does not undo is refused in a mutation, in each of the ways that Python has to do it."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import Group
from django.db import connections
from psycopg_pool import ConnectionPool

from postgres.connections import conninfo
from scheduling import operations as scheduling
from scheduling.models import ScheduledFunction
from tests.scheduling.integration import unsafe

pytestmark = pytest.mark.django_db(transaction=True)

PROCESSES = [
    "run_a_program", "run_a_shell", "spawn", "fork", "become_another_program", "start_a_process",
    "use_a_pool_of_processes",
]  # fmt: skip
THREADS = [
    "start_a_thread", "start_a_timer", "use_a_pool_of_threads", "use_a_thread_that_waits", "await_a_thread",
    "await_the_orm",
]  # fmt: skip
CONNECTIONS = [
    "use_another_alias", "use_another_engine", "open_sqlite", "open_psycopg", "open_psycopg_async",
    "use_an_open_psycopg",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _open_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A second alias, another engine, a pool of connections, a thread that waits: all there before a mutation runs."""
    monkeypatch.chdir(tmp_path)
    databases = connections.settings
    unpooled = {"OPTIONS": databases["default"]["OPTIONS"] | {"pool": False}}
    monkeypatch.setitem(databases, "other", databases["default"] | unpooled)
    lite = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "ledger")}
    monkeypatch.setitem(databases, "ledger", databases["default"] | lite | {"OPTIONS": {}})
    connections["ledger"].connect()
    connections["other"].connect()
    unsafe.busy_threads.submit(int).result()
    with ConnectionPool(conninfo(), min_size=1, open=True) as pool:
        pool.wait()
        unsafe.pools["open"] = pool
        yield
    unsafe.close_connections_of_threads()
    for alias in ("ledger", "other"):
        connections[alias].close()
        del connections[alias]


def _ended(name: str) -> ScheduledFunction:
    row = scheduling.run_after(0, unsafe.in_a_mutation, name=name)
    scheduling.run_due()
    return ScheduledFunction.objects.get(pk=row.pk)


def _is_refused(name: str, by: str) -> None:
    ended = _ended(name)
    assert (ended.status, ended.error_class) == ("failed", f"scheduling.errors.{by}"), ended.traceback
    assert ended.error is not None
    assert "tests.scheduling.integration.unsafe.in_a_mutation" in ended.error
    assert "run_after" in ended.error
    assert not Group.objects.exists()


class TestAMutation:
    @pytest.mark.parametrize("name", PROCESSES)
    def test_starts_no_process(self, name: str) -> None:
        _is_refused(name, "OutsideProcess")

    @pytest.mark.parametrize("name", THREADS)
    def test_gives_nothing_to_another_thread(self, name: str) -> None:
        before = threading.active_count()
        _is_refused(name, "OutsideThread")
        assert threading.active_count() == before

    @pytest.mark.parametrize("name", CONNECTIONS)
    def test_uses_no_second_database_connection(self, name: str) -> None:
        _is_refused(name, "SecondConnection")

    def test_asks_no_name_server(self) -> None:
        _is_refused("look_up_a_name", "OutsideConnection")

    @pytest.mark.parametrize("name", ["keep_a_loop", "use_sqlite_in_memory", "use_the_drivers_cursor"])
    def test_may_do_what_stays_inside(self, name: str) -> None:
        ended = _ended(name)
        assert (ended.status, ended.result) == ("success", 1), ended.traceback

    def test_may_leave_it_to_a_hook_after_its_commit(self) -> None:
        assert _ended("leave_it_to_a_hook").status == "success"
        unsafe.in_a_mutation(name="leave_it_to_a_hook")

    @pytest.mark.parametrize("name", ["run_a_program", "start_a_thread", "use_another_alias", "open_psycopg"])
    def test_is_let_alone_where_the_guards_are_off(self, name: str, settings: object) -> None:
        settings.SCHEDULING_GUARDS = False  # type: ignore[attr-defined]
        assert _ended(name).status == "success"

    def test_leaves_others_alone(self) -> None:
        """Whoever is in no mutation does all of that, as before."""
        with pytest.raises(scheduling.OutsideThread):
            unsafe.in_a_mutation(name="start_a_thread")
        for name in (*PROCESSES, *THREADS, *CONNECTIONS):
            if name != "become_another_program":
                getattr(unsafe, name)()
                Group.objects.all().delete()
