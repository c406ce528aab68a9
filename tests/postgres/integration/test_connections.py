"""Connections for threads, event loops and libpq."""

import asyncio
import threading
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction
from psycopg.conninfo import conninfo_to_dict

from postgres import connections
from postgres.backend.base import Pool
from tests.postgres.integration.farms import until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("new_pool")]


def session() -> Any:
    """The server's process for this thread's connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return cursor.fetchone()[0]


def pool() -> Pool:
    found: Pool | None = connection.pool  # type: ignore[attr-defined]
    assert found is not None
    return found


def all_are_back() -> bool:
    """Whether the pool lends nothing; one that it is still opening counts in its size too."""
    stats = pool().get_stats()
    return stats["pool_available"] == stats["pool_size"]


class TestConninfo:
    def test_leads_libpq_to_the_database_of_the_tests(self) -> None:
        with psycopg.connect(connections.conninfo()) as direct:
            found = direct.execute("SELECT current_database()").fetchone()
        assert found == (connection.settings_dict["NAME"],)

    def test_may_go_past_a_pooler_that_calls_the_database_by_another_name(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("DATABASE_URL", f"postgresql://pooler/{connection.settings_dict['NAME']}")
        monkeypatch.setenv("DATABASE_DIRECT_URL", "postgresql://db.example/farm")
        assert conninfo_to_dict(connections.direct_conninfo())["dbname"] == "farm"

    def test_may_go_past_a_pooler_to_the_database_of_the_tests(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert connections.direct_conninfo() == connections.conninfo()
        monkeypatch.setenv("DATABASE_DIRECT_URL", "postgresql://me:p%40ss@db.example:6000/other?sslmode=require")
        assert conninfo_to_dict(connections.direct_conninfo()) == {
            "host": "db.example",
            "port": "6000",
            "user": "me",
            "password": "p@ss",
            "sslmode": "require",
            "connect_timeout": "5",
            "keepalives_idle": "10",
            "keepalives_interval": "5",
            "keepalives_count": "3",
            "tcp_user_timeout": "25000",
            "dbname": connection.settings_dict["NAME"],
        }


class TestReleased:
    def test_gives_the_connection_back_to_the_pool(self) -> None:
        with connections.released():
            first = session()
            assert connection.connection is not None
        assert connection.connection is None
        assert session() == first

    def test_gives_it_back_after_an_error_too(self) -> None:
        @connections.released()
        def fail() -> None:
            session()
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert connection.connection is None

    def test_decorates_what_threads_run(self) -> None:
        work = connections.released()(session)
        for _ in range(30):  # more than the pool holds: a thread that kept its connection would run it dry
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        assert pool().get_stats()["pool_size"] <= 2

    def test_leaves_a_transaction_to_whoever_opened_it(self) -> None:
        with transaction.atomic():
            with connections.released():
                first = session()
            assert session() == first


class TestRun:
    async def test_calls_from_an_event_loop_with_a_few_connections(self) -> None:
        sessions = await asyncio.gather(*[connections.run(session) for _ in range(40)])
        assert 1 <= len(set(sessions)) <= connections.threads()

    async def test_passes_arguments_results_and_errors(self) -> None:
        assert await connections.run(divmod, 7, 2) == (3, 1)
        assert await connections.run(int, "ff", base=16) == 255
        with pytest.raises(ZeroDivisionError):
            await connections.run(divmod, 1, 0)

    async def test_leaves_no_connection_with_its_threads(self) -> None:
        await asyncio.gather(*[connections.run(session) for _ in range(8)])
        await asyncio.to_thread(until, all_are_back)
