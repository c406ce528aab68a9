"""A farm for the chaos: two web nodes, a janitor, a cluster of each kind, three workers, a PostgreSQL, and the
network between them."""

import contextlib
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.chaos import crew
from tests.chaos.pair import Pair
from tests.chaos.proxy import Network, Proxy
from tests.chaos.server import Disk, Postgres
from tests.chaos.silences import Silences
from tests.ports import free_port

WEBS = ("web-1", "web-2")
CLUSTERS = ("mutations", "actions")
# The clock of the machine of the third is off by an hour, all the time.
WORKERS = {"worker-1": ("web-1", "auto", 0), "worker-2": ("web-2", "http", 0), "worker-3": ("web-1", "ws", 3600)}
KINDS = ("again", "once")
WAITS = "waits"  # the kind of jobs that wait for others, signals and moments
SHARED = "shared"  # the kind, and its queue, whose jobs are shared out by their concurrency key
FILES_MB = 16
# Promises say "past its lease": here that takes seconds.
LEASE_S = 3.0
SETTINGS = {
    "JOBFARM_LEASE_S": str(LEASE_S),
    "JOBFARM_HEARTBEAT_S": "1",
    "SCHEDULING_GRACE_S": "3",
    "WEBHOOKS_FIRST_RETRY_S": "1",
    "OUTBOX_ALLOWED_NETWORKS": "127.0.0.0/8",
    "OUTBOX_TIMEOUT_S": "10",
    "JOBFARM_SUBMIT_PER_MINUTE": "1000000",
    "JOBFARM_SUBMIT_BURST": "1000000",
    "LOG_LEVEL": "WARNING",
    "PYTHONUNBUFFERED": "1",
    "DJANGO_SETTINGS_MODULE": "jobfarm.settings",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """What opens the doors of this farm: of its API, of its pages, and what GitHub signs with."""

    token: str
    session: str
    secret: str


class Redis:
    """A redis-server of our own."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, with nothing from before."""
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir"]
        self._process = subprocess.Popen([*command, str(self._folder)], stdout=subprocess.DEVNULL)

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class Farm:
    """The whole of it. `url` of a web node goes past the proxies; workers and the farm's own processes go through."""

    def __init__(self, folder: Path, *, with_redis: bool, pair: Pair | None = None) -> None:
        """With a pair of servers the farm's processes speak to these, and to no proxy."""
        self.folder = folder
        self.data = folder / "var"
        self.runs, self.lines = folder / "runs", folder / "lines"
        for ledger in (self.runs, self.lines):
            ledger.touch()
        self.calls = folder / "calls"
        self.calls.mkdir()
        self.files = Disk(self.data / "files", megabytes=FILES_MB)
        self._pair = pair
        self._server = None if pair else Postgres(self.data)
        self.disk = Disk(self._server.place.home) if self._server and self._server.has_own_disk else None
        self.redis = Redis(folder) if with_redis else None
        self.network = Network()
        self.ports = {name: free_port() for name in WEBS}
        named = (*WEBS, "janitor", *CLUSTERS) if self._server else ()
        self.to_database = {name: Proxy(self.network, self.postgres.socket) for name in named}
        self.to_web = {name: Proxy(self.network, ("127.0.0.1", self.ports[web])) for name, (web, *_) in WORKERS.items()}
        self.crew = crew.Crew(folder)
        self.silences = Silences()
        self.keys = Keys(token="", session="", secret="")
        os.environ |= self._environment(pair.url if pair else self.postgres.direct_url)

    @property
    def postgres(self) -> Postgres:
        """The one server of a farm that has no pair of them."""
        assert self._server is not None
        return self._server

    def url(self, web: str) -> str:
        """Where a web node answers."""
        return f"http://127.0.0.1:{self.ports[web]}"

    def begin(self) -> None:
        """Make what the load needs, and start everything. Raises TimeoutError if it does not come up."""
        if self.redis is not None:
            self.redis.start()
        keys, workers = _furnish()
        self.keys = keys
        for name, web in self.ports.items():
            self._add(name, "manage.py", "web", "--port", str(web))
        self._add("janitor", "manage.py", "janitor")
        for name in CLUSTERS:
            self._add(name, "manage.py", "cluster", f"--{name}")
        for name, key in workers.items():
            self._add_worker(name, key)
        self.crew.start()
        if not crew.until(lambda: all(map(self._answers, WEBS)), within_s=90):
            raise TimeoutError(f"the web servers do not come up; their logs are in {self.folder}")

    def heal(self) -> None:
        """Undo whatever was done to the network, the disks and the processes."""
        for proxy in (*self.to_database.values(), *self.to_web.values()):
            proxy.resume()
            proxy.spare_answers()
        for disk in (self.files, self.disk):
            if disk is not None:
                disk.empty()

    def end(self) -> list[str]:
        """Stop everything; the names of processes that did not stop by themselves."""
        stuck = self.crew.stop()
        self.network.close()
        if self.redis is not None:
            self.redis.kill()
        self.files.remove()
        if self._server is not None:
            self._server.remove()
        return stuck

    def _answers(self, web: str) -> bool:
        return httpx.get(f"{self.url(web)}/health/live", timeout=2).is_success

    def _add(self, name: str, *argv: str) -> None:
        self.crew.add(name, *argv, environment=self._environment(self._database_of(name)))

    def _database_of(self, name: str) -> str:
        if self._pair is not None:
            return self._pair.url
        port = self.to_database[name].port
        return f"postgresql://jobfarm@127.0.0.1:{port}/jobfarm?sslmode=disable&gssencmode=disable"

    def _add_worker(self, name: str, key: str) -> None:
        _, transport, off_s = WORKERS[name]
        argv = ["-m", "jobfarm_worker", "--url", f"http://127.0.0.1:{self.to_web[name].port}"]
        argv += ["--transport", transport, "--concurrency", "2", "--grace", "2", "--name", name, "--verbose"]
        argv += [word for kind in (*KINDS, SHARED) for word in ("--handler", f"{kind}=tests.chaos.handlers:work")]
        argv += ["--handler", f"{WAITS}=tests.chaos.handlers:wait"]
        environment = {"JOBFARM_KEY": key, "CHAOS_RUNS": str(self.runs), "CHAOS_CLOCK_OFF_S": str(off_s)}
        environment |= {"CHAOS_CALLS": str(self.calls), "CHAOS_WORKER": name}
        self.crew.add(name, *argv, environment=environment)

    def _environment(self, database_url: str) -> dict[str, str]:
        redis = {} if self.redis is None else {"REDIS_URL": f"redis://127.0.0.1:{self.redis.port}/0"}
        given = {"DATABASE_URL": database_url, "JOBFARM_DATA": str(self.data), "SECRET_KEY": "chaos " * 10}
        return {**SETTINGS, **given, **redis}


@contextlib.contextmanager
def farm(*, with_redis: bool, keep_logs: bool, pair: Pair | None = None) -> Iterator[Farm]:
    """A farm that runs for the length of the block, and leaves nothing behind but, where wished, its logs."""
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    made = Farm(folder, with_redis=with_redis, pair=pair)
    try:
        yield made
    finally:
        made.heal()
        made.end()
        if not keep_logs:
            shutil.rmtree(folder)


def _furnish() -> tuple[Keys, dict[str, str]]:
    """Tables, kinds, a person, keys; and the key of each worker by its name."""
    import django

    django.setup()
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.auth.models import User
    from django.contrib.sessions.backends.db import SessionStore
    from django.core.management import call_command
    from django.db import connection

    from accounts.operations import tokens
    from core.backoff import Backoff
    from jobs import operations as jobs
    from scheduling import operations as scheduling
    from tests.chaos import functions
    from webhooks import operations as webhooks
    from webhooks.domain.deliveries import Source

    call_command("migrate", interactive=False, verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute(functions.MADE)
    scheduling.sync_crons()
    scheduling.pause("retention")  # what was taken of a limit is forgotten with its row, and shall be counted
    soon: dict[str, Any] = {"backoff": Backoff(first_s=0.1, base=1, cap_s=0.1), "queue": "work"}
    for name in ("again", WAITS):
        jobs.create_kind(jobs.Kind(name=name, max_attempts=1000, **soon))
    jobs.create_kind(jobs.Kind(name="once", max_attempts=1, retry_when_lost=False, **soon))
    jobs.create_kind(jobs.Kind(name=SHARED, max_attempts=1000, **soon | {"queue": SHARED}))
    jobs.set_fair(SHARED, "key")
    person = User.objects.create_superuser("chaos", password=secrets.token_urlsafe())
    session = SessionStore()
    session[SESSION_KEY] = str(person.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = person.get_session_auth_hash()
    session.create()
    assert session.session_key is not None
    keys = Keys(
        token=tokens.create_token(person, name="chaos")[1],
        session=session.session_key,
        secret=webhooks.secrets.add(Source.GITHUB)[1],
    )
    return keys, {name: jobs.create_worker(name, queues=["work", SHARED])[1] for name in WORKERS}
