"""A real server for tests: uvicorn as a process of its own, on the test database, on an inherited socket."""

import contextlib
import os
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import psycopg
from django.db import connection

from jobfarm.management.commands import web
from postgres import connections
from tests.forkserver import Process

UP_WITHIN_S = 30.0


class Server:
    """One uvicorn process. `url` outlives `stop` and `start`: the listening socket belongs to the test."""

    def __init__(self, *, listener: socket.socket, environment: Mapping[str, str], log: Path) -> None:
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.ws_url = self.url.replace("http", "ws", 1)
        # uvicorn takes an inherited socket for one that is not TCP and leaves this out: each answer to a connection
        # that stays open would then wait 40 ms for the client's acknowledgement of its head.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._listener = listener
        self._environment = environment
        self._log = log
        self._process: Process | None = None

    @property
    def pid(self) -> int:
        """The process's id; an AssertionError while it is stopped."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """All that the server's processes have said so far."""
        return self._log.read_text(errors="replace")

    def start(self) -> None:
        """Start the process and wait until it answers; an AssertionError with its log if it does not."""
        configuration = web.configuration()
        command = [
            *("-W", "error::RuntimeWarning", "-m", "uvicorn", "jobfarm.asgi:application"),
            *("--fd", str(self._listener.fileno()), "--lifespan", "on"),
            *("--http", str(configuration.http), "--ws", str(configuration.ws)),
            *("--log-level", "warning", "--ws-max-size", str(configuration.ws_max_size)),
            *("--timeout-graceful-shutdown", str(configuration.timeout_graceful_shutdown)),
        ]
        with self._log.open("ab") as log:
            self._process = Process(
                command,
                env=self._environment,
                pass_fds=[self._listener.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                loaded=True,
            )
        self._wait_until_up()

    def stop(self) -> float:
        """Ask it to end (SIGTERM) and wait; the seconds that took. Harmless when it is stopped."""
        return self._end(kill=False)

    def kill(self) -> float:
        """End it at once (SIGKILL); the seconds that took."""
        return self._end(kill=True)

    def restart(self) -> None:
        """Stop and start it at the same address. New connections wait meanwhile; open ones are lost."""
        self.stop()
        self.start()

    def _end(self, *, kill: bool) -> float:
        if self._process is None:
            return 0.0
        since = time.monotonic()
        (self._process.kill if kill else self._process.terminate)()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"the server did not end within 20 s of SIGTERM:\n{self.log}") from None
        finally:
            self._process = None
        return time.monotonic() - since

    def _wait_until_up(self) -> None:
        deadline = time.monotonic() + UP_WITHIN_S
        while not self._answers():
            assert self._process is not None
            assert self._process.poll() is None, f"the server ended:\n{self.log}"
            assert time.monotonic() < deadline, f"the server does not answer:\n{self.log}"

    def _answers(self) -> bool:
        # The socket listens before the server runs, so the first request waits for it: no pause needed. This one is
        # cheap: the API's document took 0.4 s of a processor at each start.
        try:
            with urllib.request.urlopen(f"{self.url}/health/live", timeout=2) as response:
                return bool(response.status)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"the server answers {error.code}:\n{self.log}") from error
        except OSError:
            return False


@contextlib.contextmanager
def serve(**environment: str) -> Iterator[Server]:
    """Run a server on the database of this test. Keyword arguments go into its environment.

    Needs `django_db(transaction=True)`: the server sees only what is committed.
    """
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener, tempfile.TemporaryDirectory() as folder:
        name = str(connection.settings_dict["NAME"])
        assert name.startswith("test_"), f"{name} is no test database: mark the test with django_db"
        own = {"JOBFARM_TEST_DATABASE": name, "PYTHONUNBUFFERED": "1"}
        own["JOBFARM_URL"] = f"http://127.0.0.1:{listener.getsockname()[1]}"
        given = {**os.environ, **own, **environment}
        server = Server(listener=listener, environment=given, log=Path(folder) / "server.log")
        try:
            server.start()
            yield server
        finally:
            server.stop()
            _forget_what_it_noted(name)


class Serving:
    """The server that runs now, kept from file to file of a folder: a start takes two seconds of a processor. A file
    that wants another environment ends it, so that there are never two on the database."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._running: tuple[Server, Mapping[str, str]] | None = None

    def having(self, **environment: str) -> Server:
        """The server with this in its environment, as `serve` runs it."""
        if self._running is None or self._running[1] != environment:
            self.end()
            self._running = self._stack.enter_context(serve(**environment)), environment
        return self._running[0]

    def end(self) -> None:
        """End the server, if there is one. Harmless when there is none."""
        self._running = None
        self._stack.close()


def _forget_what_it_noted(database: str) -> None:
    """It may outlive the last test of its file, and note once more that it hears workers. Nobody would say so any more,
    and a farm that heard nobody for a while takes no job back: in tests that commit nothing, up to the next that do."""
    with psycopg.connect(connections.conninfo(), dbname=database, autocommit=True) as admin:
        admin.execute("DELETE FROM jobs_reachability")
        admin.execute("DELETE FROM jobs_process")


@contextlib.contextmanager
def database_away() -> Iterator[None]:
    """Who is connected to the database of this test is thrown out, but for the test itself, and nobody can come in; as
    when it restarts, which here would end the database of all other tests too."""
    name = str(connection.settings_dict["NAME"])
    connection.ensure_connection()
    with psycopg.connect(connections.conninfo(), dbname="postgres", autocommit=True) as admin:
        admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        try:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> %s"
                " AND backend_type = 'client backend'",  # who cleans up is nobody's to end
                [name, connection.connection.info.backend_pid],
            )
            yield
        finally:
            admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
