"""A fleet on one machine: several of each process, PgBouncer in transaction mode, Redis. Real processes all."""

import json
import os
import shutil
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.db import connection

from postgres.embedded import places
from scheduling.models import Cluster
from tests import forkserver
from tests.farm import until
from tests.live.integration.conftest import running_redis
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
METRICS_TOKEN = "for the fleet's own eyes"
ENDS_WITHIN_S = 60.0
POOLER = """
[databases]
farm = host={host} port={port} dbname={name} user={user} {password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 20
max_client_conn = 500
ignore_startup_parameters = options,extra_float_digits
"""


@dataclass(kw_only=True)
class Program:
    """One process of the fleet, and what tells that it is up."""

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    is_up: Callable[["Program"], bool]
    url: str = ""
    _process: forkserver.Process | None = field(default=None, init=False)

    @property
    def pid(self) -> int:
        """Its process id while it runs."""
        assert self._process is not None, f"{self.name} does not run"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, in a session of its own. It is up a moment later."""
        with self.log.open("ab") as log:
            self._process = forkserver.Process(
                self.argv, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, loaded=True
            )

    def wait_until_up(self) -> None:
        """Wait until it does its work; an AssertionError with its log if it ends before."""
        until(self._checked, within_s=60, what=f"{self.name}: {self.output()[-3000:]}")

    def kill(self) -> None:
        """End it and all that belongs to it, without a word to anybody."""
        os.killpg(self.pid, signal.SIGKILL)
        self._ended()

    def terminate(self) -> None:
        """Ask it to end."""
        assert self._process is not None
        self._process.terminate()

    def ends(self) -> int:
        """Wait for its end; the exit code."""
        return self._ended()

    def output(self) -> str:
        """All it has logged."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def _checked(self) -> bool:
        assert self.is_running, f"{self.name} ended: {self.output()[-3000:]}"
        return self.is_up(self)

    def _ended(self) -> int:
        assert self._process is not None
        code = self._process.wait(ENDS_WITHIN_S)
        self._process = None
        return code


@dataclass(kw_only=True)
class Fleet:
    """Two web nodes, two clusters for mutations and a janitor, on one database by way of a pooler."""

    nodes: list[Program]
    clusters: list[Program]
    janitor: Program
    environment: Mapping[str, str]

    @property
    def programs(self) -> list[Program]:
        """All of them."""
        return [*self.nodes, *self.clusters, self.janitor]

    def mend(self) -> None:
        """Start what does not run, all at once."""
        missing = [program for program in self.programs if not program.is_running]
        for program in missing:
            program.start()
        for program in missing:
            program.wait_until_up()

    def manage(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """What another management command says, on a machine of this fleet."""
        return forkserver.run(["manage.py", *words], env=self.environment, timeout=60, loaded=True)

    def log_lines(self) -> list[dict[str, Any]]:
        """What all of them logged: each line is an object, or this raises."""
        return [json.loads(line) for program in self.programs for line in program.output().splitlines()]


@contextmanager
def fleet(folder: Path) -> Iterator[Fleet]:
    """A fleet that runs for the length of the block, on the database of the tests."""
    with ExitStack() as stack:
        pooler_port, redis_port = free_port(), free_port()
        stack.enter_context(running_redis(redis_port, folder))
        stack.enter_context(pooler(folder, port=pooler_port))
        made = _fleet(folder, _environment(folder, pooler_port=pooler_port, redis_port=redis_port))
        stack.callback(_end, made)
        made.mend()
        yield made


@contextmanager
def pooler(folder: Path, *, port: int) -> Iterator[None]:
    """PgBouncer in transaction mode before the database of the tests; it knows it as `farm`."""
    at = connection.settings_dict
    place = folder / "pooler"
    place.mkdir()
    environment = {
        "host": at["HOST"],
        "port": at["PORT"] or 5432,
        "name": at["NAME"],
        "user": at["USER"],
        "listen": port,
    }
    secret = f"password={at['PASSWORD']}" if at["PASSWORD"] else ""
    (place / "pgbouncer.ini").write_text(POOLER.format(**environment, password=secret))
    place.chmod(0o755)
    for parent in [folder, *folder.parents][:4]:  # it may run as somebody else, who must find its file
        with suppress(PermissionError):
            parent.chmod(parent.stat().st_mode | 0o055)
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    assert program, "the tests need pgbouncer (scripts/test-tools)"
    process = subprocess.Popen(
        [program, "-q", str(place / "pgbouncer.ini")], stdout=subprocess.DEVNULL, **_credentials(at["HOST"])
    )
    try:
        until(lambda: _listens(port), what="the pooler")
        yield
    finally:
        process.terminate()
        process.wait(10)


def scrape(node: Program) -> str:
    """What Prometheus reads of this node."""
    request = urllib.request.Request(f"{node.url}/metrics", headers={"Authorization": f"Bearer {METRICS_TOKEN}"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return str(answer.read().decode())


def _environment(folder: Path, *, pooler_port: int, redis_port: int) -> dict[str, str]:
    at = connection.settings_dict
    user = quote(f"{at['USER']}:{at['PASSWORD']}" if at["PASSWORD"] else at["USER"], safe=":")
    given = {
        "DATABASE_URL": f"postgresql://anybody@127.0.0.1:{pooler_port}/farm",
        "DATABASE_DIRECT_URL": (
            f"postgresql://{user}@/{at['NAME']}?host={quote(at['HOST'], safe='')}&port={at['PORT'] or 5432}"
        ),
        "REDIS_URL": f"redis://127.0.0.1:{redis_port}/0",
        "JOBFARM_PREPARE": "0",  # this PgBouncer may be older than 1.21, which learned prepared statements
        "JOBFARM_DATA": str(folder),
        "SECRET_KEY": settings.SECRET_KEY,
        "JOBFARM_LOG": "json",
        "LOG_LEVEL": "WARNING",
        "JOBFARM_METRICS_TOKEN": METRICS_TOKEN,
        "PYTHONUNBUFFERED": "1",
    }
    return {name: value for name, value in os.environ.items() if name != "JOBFARM_TEST_DATABASE"} | given


def _fleet(folder: Path, environment: Mapping[str, str]) -> Fleet:
    def program(name: str, *words: str, **more: Any) -> Program:
        argv = ["manage.py", *words]
        return Program(name=name, argv=argv, environment=environment, log=folder / f"{name}.log", **more)

    ports = [free_port(), free_port()]
    return Fleet(
        nodes=[
            program(f"web-{n}", "web", "--port", str(port), url=f"http://127.0.0.1:{port}", is_up=_answers)
            for n, port in enumerate(ports)
        ],
        clusters=[
            program(f"cluster-{n}", "cluster", "--mutations", "--workers", "1", is_up=_reports) for n in range(2)
        ],
        janitor=program("janitor", "janitor", is_up=lambda _: True),
        environment=environment,
    )


def _end(made: Fleet) -> None:
    for program in made.programs:
        if program.is_running:
            program.terminate()
    for program in made.programs:
        if program.is_running:
            with suppress(subprocess.TimeoutExpired):
                program.ends()
        if program.is_running:
            program.kill()


def _answers(node: Program) -> bool:
    try:
        with urllib.request.urlopen(f"{node.url}/health/live", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def _reports(cluster: Program) -> bool:
    """Whether the dispatcher that this supervisor started has reported."""
    children = Path(f"/proc/{cluster.pid}/task/{cluster.pid}/children").read_text().split()
    living = Cluster.objects.filter(pid__in=map(int, children), ended_at=None, last_seen_at__isnull=False)
    return living.exists()


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _credentials(host: str) -> dict[str, Any]:
    """As root: whoever owns the embedded server's folder. PgBouncer refuses to run as root, and only they reach it."""
    home = Path(host)
    return places.account_for(home).credentials if home.is_absolute() and home.exists() else {}
