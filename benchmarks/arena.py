"""Where contenders meet: a database for each on one server, their processes, and what those say."""

import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from benchmarks.peers import HOME, OURS, RAW, ROOT, Contender

TEMPLATE = os.environ.get("BENCH_TEMPLATE")  # as in own.py, which sets Django up
Found = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A contender with its database and what its processes find in their environment."""

    contender: Contender
    environment: Mapping[str, str]

    def run(self, verb: str, count: int = 0, **more: str) -> Found:
        """Have it do one thing; what it said last. Raises CalledProcessError."""
        command = [*self.contender.command, verb, str(count)]
        done = subprocess.run(
            command, env={**self.environment, **more}, cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE
        )
        results = [line for line in done.stdout.splitlines() if line.startswith("{")]
        return dict(json.loads(results[-1])) if results else {}

    def psycopg(self) -> "psycopg.Connection[Any]":
        """A connection to its database."""
        return psycopg.connect(self.environment["BENCH_CONNINFO"], autocommit=True)


@dataclass
class Workers:
    """Two worker processes of a contender; `drained` waits until they have had so many jobs."""

    place: Place
    how_many: int = 2
    more: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> "Workers":
        self._results: queue.SimpleQueue[Found] = queue.SimpleQueue()
        self._latest: dict[int, Found] = {}
        self._processes = [self._start(number) for number in range(self.how_many)]
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            _end(process)

    def drained(self, jobs: int, *, within_s: float = 300) -> list[Found]:
        """What each worker counted, once together they had `jobs`. Raises TimeoutError."""
        deadline = time.monotonic() + within_s
        while sum(found["jobs"] for found in self._latest.values()) < jobs:
            try:
                found = self._results.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                had = sum(found["jobs"] for found in self._latest.values())
                raise TimeoutError(f"{self.place.contender.name}: {had} of {jobs}") from None
            self._latest[found["pid"]] = found
        return list(self._latest.values())

    def _start(self, number: int) -> "subprocess.Popen[str]":
        environment = {**self.place.environment, "BENCH_WORKER": str(number), **self.more}
        process = subprocess.Popen(
            [*self.place.contender.command, "work"], env=environment, cwd=ROOT, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        threading.Thread(target=self._read, args=(process,), daemon=True).start()
        return process

    def _read(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout
        for line in process.stdout:
            if line.startswith("{"):
                self._results.put(json.loads(line))


@contextlib.contextmanager
def places(contenders: list[Contender]) -> Iterator[dict[Contender, Place]]:
    """A prepared place for each; the databases are dropped at the end. The floor shares ours: it has our tables."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was set up is taken down
    server = _server()
    names = {one: f"bench_{os.getpid()}_{one.script.split('.')[0]}" for one in contenders if one is not RAW}
    with _redis() as redis_url, psycopg.connect(server, autocommit=True) as connection:
        try:
            for one, name in names.items():
                template = f'TEMPLATE "{TEMPLATE}"' if TEMPLATE and one.is_ours else ""
                connection.execute(f'CREATE DATABASE "{name}" {template}')
            found = {}
            for one in contenders:
                environment = _environment(server, names[OURS if one is RAW else one], redis_url)
                found[one] = Place(contender=one, environment=environment)
            for place in sorted(found.values(), key=lambda place: place.contender is RAW):
                place.run("prepare")
            yield found
        finally:
            for name in names.values():
                connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def _server() -> str:
    import django  # noqa: PLC0415  # settings are read here and not where --help is asked

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "jobfarm.settings")
    django.setup()
    from postgres import connections  # noqa: PLC0415

    return connections.conninfo()


def _environment(server: str, database: str, redis_url: str) -> dict[str, str]:
    given: dict[str, Any] = {**conninfo_to_dict(server), "dbname": database}
    given.pop("options", None)
    user, host = quote(str(given["user"])), quote(str(given["host"]), safe="")
    return {
        **os.environ,
        "JOBFARM_TEST_DATABASE": database,
        "BENCH_CONNINFO": make_conninfo(**given),
        "BENCH_URL": f"postgresql://{user}@localhost/{database}?host={host}&port={given['port']}",
        "BENCH_REDIS": redis_url,
        **{f"PG{name.upper()}": str(given[name]) for name in ("host", "port", "user")},
        "PGDATABASE": database,
        "BENCH_NODE": str(HOME / "node"),
    }


def _end(process: "subprocess.Popen[str]") -> None:
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, signal_number)
            process.wait(3)
    for pipe in (process.stdin, process.stdout):
        if pipe:
            pipe.close()


@contextlib.contextmanager
def _redis() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--appendonly", "yes"]
        server = subprocess.Popen(["redis-server", *options, "--loglevel", "warning"], stdout=subprocess.DEVNULL)
        try:
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()
            server.wait()
