"""The watchdog of connections: the wait for a frozen server ends, and a long statement of a living one does not."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from django.db.utils import ConnectionHandler

from postgres import configuration, embedded
from postgres.backend import watchdog
from postgres.backend.base import DatabaseWrapper
from postgres.backend.trips import Connection
from postgres.backend.watchdog import Watchdog
from tests.farm import until
from tests.operations import postgresqls
from tests.operations.postgresqls import Server
from tests.ports import free_port

QUICK = {"slow_s": 0.3, "look_s": 0.3, "every_s": 0.1}


@pytest.fixture(scope="module", params=["socket", "TCP"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    port = free_port() if request.param == "TCP" else None
    with postgresqls.primary(embedded.bin_folder(), port=port) as running:
        yield running


@pytest.fixture(scope="module")
def sole() -> Iterator[Server]:
    with postgresqls.primary(embedded.bin_folder(), port=free_port()) as running:
        yield running


@pytest.fixture
def dog() -> Iterator[Watchdog]:
    made = Watchdog(**QUICK)
    yield made
    made.stop()


def connect(server: Server) -> Connection:
    return Connection.connect(postgresqls.url(server), autocommit=True)


@contextmanager
def frozen(server: Server) -> Iterator[None]:
    server.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.signal(signal.SIGCONT)


def test_a_wait_for_a_frozen_server_ends_and_so_do_its_idle_connections(server: Server, dog: Watchdog) -> None:
    with connect(server) as waiting, connect(server) as idle:
        dog.watch(waiting)
        dog.watch(idle)
        with frozen(server):
            with pytest.raises(psycopg.OperationalError):
                waiting.execute("SELECT 1")
            until(lambda: _is_hung_up(idle))
            assert not watchdog.is_alive(dog._watched.get(idle), within_s=0.2)


def test_a_connection_of_an_event_loop_ends_with_the_others(server: Server, dog: Watchdog) -> None:
    """It listens, mostly for nothing: that it waits says nothing of its server."""

    async def listen() -> None:
        async with await psycopg.AsyncConnection.connect(postgresqls.url(server), autocommit=True) as listening:
            dog.watch(listening)
            await asyncio.to_thread(_meet_a_frozen, server, dog)
            with pytest.raises(psycopg.OperationalError):
                await asyncio.wait_for(listening.execute("SELECT 1"), timeout=5)

    asyncio.run(listen())


def test_a_long_statement_of_a_living_server_is_waited_for(server: Server, dog: Watchdog) -> None:
    with connect(server) as waiting:
        dog.watch(waiting)
        assert waiting.execute("SELECT pg_sleep(1.5), 7").fetchone() == ("", 7)


def test_one_silence_is_not_enough(server: Server, dog: Watchdog) -> None:
    with connect(server) as waiting:
        dog.watch(waiting)
        server.signal(signal.SIGSTOP)
        threading.Timer(0.6, server.signal, [signal.SIGCONT]).start()  # within the second look
        assert waiting.execute("SELECT 7").fetchone() == (7,)


def test_its_thread_ends_with_the_last_connection_and_comes_back(server: Server, dog: Watchdog) -> None:
    for _ in range(2):
        with connect(server) as watched:
            dog.watch(watched)
            assert dog._thread is not None
        until(lambda: dog._thread is None)


def test_a_forked_child_has_a_watchdog_of_its_own(server: Server) -> None:
    with connect(server) as watched:
        watchdog.watch(watched)
        child = os.fork()
        if not child:
            os._exit(0 if not watchdog._of_process._watched else 1)
        assert os.waitpid(child, 0)[1] == 0
        watchdog.stop()


class TestASoleServer:
    """Nobody takes its place, so a short pause costs nobody what they are waiting for."""

    def test_is_waited_for_no_longer_than_its_time(self, sole: Server) -> None:
        patient = Watchdog(**QUICK, alone_s=1.5)
        with connect(sole) as waiting, frozen(sole):
            patient.watch(waiting, is_alone=True)
            began = time.monotonic()
            with pytest.raises(psycopg.OperationalError):
                waiting.execute("SELECT 1")
            assert time.monotonic() - began > 1.5
        patient.stop()

    def test_answers_who_waited_for_it_when_it_goes_on(self, sole: Server) -> None:
        patient = Watchdog(**QUICK, alone_s=30.0)
        with connect(sole) as waiting:
            patient.watch(waiting, is_alone=True)
            sole.signal(signal.SIGSTOP)
            threading.Timer(1.5, sole.signal, [signal.SIGCONT]).start()
            assert waiting.execute("SELECT 7").fetchone() == (7,)
        patient.stop()

    def test_is_watched_wherever_the_farm_connects(self, sole: Server, tmp_path: Path) -> None:
        entry = configuration.database(postgresqls.url(sole), data=tmp_path)
        entry["OPTIONS"]["pool"] = False
        wrapper = ConnectionHandler({"default": {}, "sole": entry})["sole"]
        connection = wrapper.get_new_connection(wrapper.get_connection_params())
        assert connection in watchdog._of_process._watched
        connection.close()
        watchdog.stop()

    def test_behind_a_socket_of_this_machine_is_not(self, dog: Watchdog, tmp_path: Path) -> None:
        with postgresqls.primary(embedded.bin_folder()) as running, connect(running) as waiting:
            dog.watch(waiting, is_alone=True)
            assert waiting not in dog._watched


@pytest.mark.parametrize("pool", [{"min_size": 0, "max_size": 2}, False], ids=["of a pool", "of a cluster"])
def test_where_several_hosts_are_named_each_connection_is_watched(server: Server, tmp_path: Path, pool: object) -> None:
    """Those of clusters are kept for good, outside of any pool."""
    nobody = Server(programs=server.programs, folder=tmp_path)
    entry = configuration.database(postgresqls.url(nobody, server), data=tmp_path)
    entry["OPTIONS"]["pool"] = pool
    wrapper = ConnectionHandler({"default": {}, "several": entry})["several"]
    assert isinstance(wrapper, DatabaseWrapper)
    try:
        connection = wrapper.get_new_connection(wrapper.get_connection_params())
        assert connection in watchdog._of_process._watched
        assert configuration.hosts_ordered(wrapper.get_connection_params())["host"].startswith(f"{server.host},")
        connection.close()
    finally:
        if pool:
            DatabaseWrapper._connection_pools.pop("several").close()
        watchdog.stop()


def test_nobody_and_a_silent_listener_are_not_alive(tmp_path: Path) -> None:
    began = time.monotonic()
    assert not watchdog.is_alive(str(tmp_path / "nobody"), within_s=0.2)
    assert not watchdog.is_alive(("127.0.0.1", free_port()), within_s=0.2)
    assert time.monotonic() - began < 5  # of a busy machine; connecting without a bound takes minutes


def _meet_a_frozen(server: Server, dog: Watchdog) -> None:
    with connect(server) as waiting, frozen(server):
        dog.watch(waiting)
        with pytest.raises(psycopg.OperationalError):
            waiting.execute("SELECT 1")


def _is_hung_up(connection: Connection) -> bool:
    try:
        connection.execute("SELECT 1")
    except psycopg.OperationalError:
        return True
    return False
