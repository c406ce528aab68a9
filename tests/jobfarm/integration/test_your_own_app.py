"""docs/your-own-app.md, run: its files in a folder beside the checkout, its commands in a shell."""

import json
import os
import secrets
import shlex
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import django.db
import psycopg
import pytest
import pytest_django
from psycopg import sql

from postgres import connections
from postgres.backend.base import DatabaseWrapper
from tests import documented
from tests.operations.databases import drop
from tests.ports import free_port

ROOT = Path(__file__).parents[3]
MANAGE = ".venv/bin/python manage.py "
# Several commands in one process: each of its own would cost two seconds of a processor.
ONE_AFTER_THE_OTHER = """
import importlib, os, sys
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "jobfarm.settings")
from django.core.management import execute_from_command_line
for command in sys.argv[1:]:
    importlib.invalidate_caches()
    execute_from_command_line(["manage.py", *map(os.path.expandvars, command.split())])
    print("--", flush=True)
"""
PATIENCE_S = 180.0


def _files() -> dict[str, str]:
    """The files of the page, by the path that each names in its first line."""
    blocks = documented.blocks("your-own-app.md", "python")
    return {text.splitlines()[0].removeprefix("# "): text for text in blocks if text.startswith("# ")}


def _shell() -> list[str]:
    """The page's blocks for a shell, in its order."""
    return documented.blocks("your-own-app.md", "sh")


class OwnFarm:
    """A farm on a database of its own, with the page's app in a home folder of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.exports, making, working, asking, self.testing = _shell()
        make_migrations, run = making.splitlines()
        assert run == "make run", "whose parts are run here one by one"
        create_worker, _, self.worker = working.partition("\n")
        self.ask, add_secret, self.note, send = asking.splitlines()
        self.before = [make_migrations, f"{MANAGE}migrate -v 0", create_worker, add_secret]
        self.after = [send, f"{MANAGE}cluster --mutations --once"]
        self.port = free_port()
        self.database = f"own_app_{secrets.token_hex(4)}"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("JOBFARM_", "PYTEST_"))},
            "HOME": str(home),
            "PORT": str(self.port),
            "JOBFARM_DATA": str(home / "var"),
            "DATABASE_URL": _url(self.database),
            "SCHEDULING_GUARDS": "1",  # as `make run` has it
        }
        self.running: list[subprocess.Popen[bytes]] = []

    def write_files(self) -> None:
        """As somebody who follows the page does."""
        for path, text in _files().items():
            file = self.home / "apps" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        (self.home / "apps" / "notes" / "__init__.py").touch()

    def run(self, commands: str, **environment: str) -> str:
        """What a block of commands says; an AssertionError with all of it if one of them fails."""
        done = subprocess.run(
            ["sh", "-ec", self.exports + commands],
            cwd=ROOT,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def manage(self, commands: list[str]) -> list[str]:
        """What each of these commands of manage.py says."""
        words = shlex.join(command.replace('"', "").removeprefix(MANAGE) for command in commands)
        output = self.run(f"{sys.executable} -c {shlex.quote(ONE_AFTER_THE_OTHER)} {words}")
        return output.split("--\n")[:-1]

    def start(self, command: str, **environment: str) -> None:
        """Keep a command running."""
        with (self.home / "log").open("ab") as log:
            process = subprocess.Popen(
                ["sh", "-ec", f"{self.exports}exec {command}"],
                cwd=ROOT,
                env=self.environment | environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.running.append(process)

    def stop(self) -> None:
        """End what runs, the worker before the farm."""
        for process in reversed(self.running):
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE_S)

    def get(self, path: str, data: bytes | None = None) -> tuple[int, Any]:
        """Status and JSON of an answer; 0 while nobody answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", data=data, timeout=20) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)
        except OSError:
            return 0, None

    def rows(self, statement: str) -> list[Any]:
        """What the farm's database holds."""
        with psycopg.connect(_url(self.database), autocommit=True) as connection:
            return connection.execute(sql.SQL(statement)).fetchall()

    def until(self, what: str, statement: str) -> list[Any]:
        """The rows of a statement, once there are some."""
        deadline = time.monotonic() + PATIENCE_S
        while not (rows := self.rows(statement)):
            assert time.monotonic() < deadline, f"{what}:\n{(self.home / 'log').read_text()}"
            time.sleep(0.1)
        return rows


def _url(database: str) -> str:
    parameters = psycopg.conninfo.conninfo_to_dict(connections.conninfo())
    user, host, port = (parameters.get(name, "") for name in ("user", "host", "port"))
    password = f":{parameters['password']}" if parameters.get("password") else ""
    return f"postgresql://{user}{password}@/{database}?host={host}&port={port or 5432}"


@contextmanager
def _databases(*names: str) -> Iterator[None]:
    """Copies of the test database: to migrate each from nothing would take longer than all else here."""
    template = psycopg.conninfo.conninfo_to_dict(connections.conninfo())["dbname"]
    django.db.connections.close_all()
    DatabaseWrapper.close_pools()  # nobody may use what is copied
    with psycopg.connect(connections.conninfo(), dbname="postgres", autocommit=True) as server:
        for name in names:
            copied = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
            server.execute(copied.format(sql.Identifier(name), sql.Identifier(str(template))))
        yield
        for name in names:
            drop(server, name)


@pytest.fixture(scope="module")
def farm(
    tmp_path_factory: pytest.TempPathFactory, django_db_setup: None, django_db_blocker: pytest_django.DjangoDbBlocker
) -> Iterator[OwnFarm]:
    """The page up to its tests, done once for all that is looked at here."""
    made = OwnFarm(tmp_path_factory.mktemp("home"))
    with django_db_blocker.unblock(), _databases(made.database, f"test_{made.database}"):
        try:
            made.write_files()
            _follow_the_page(made)
            yield made
        finally:
            made.stop()


def _follow_the_page(farm: OwnFarm) -> None:
    _, _, created, _ = farm.manage(farm.before)
    farm.start(f"{MANAGE}web")
    farm.start(f"env {farm.worker}", key=created.split()[-1])
    deadline = time.monotonic() + PATIENCE_S
    while farm.get("/notes/")[0] == 0:
        assert time.monotonic() < deadline, (farm.home / "log").read_text()
        time.sleep(0.05)
    farm.run(f"{farm.ask}\n{farm.note}")
    farm.manage(farm.after)


@pytest.mark.landing
class TestAnAppBesideTheCheckout:
    def test_has_its_tables_and_answers_at_its_address(self, farm: OwnFarm) -> None:
        assert farm.get("/notes/")[0] == 200
        assert farm.rows("SELECT 1 FROM django_migrations WHERE app = 'notes' AND name = '0001_initial'")

    def test_has_its_jobs_done_by_its_handler_in_a_worker(self, farm: OwnFarm) -> None:
        counted = "SELECT words FROM notes_note WHERE text = 'three words here' AND words IS NOT NULL"
        assert farm.until("the worker counts", counted) == [(3,)]
        kinds = "SELECT name FROM jobs_queue WHERE name IN ('count-words', 'printer')"
        assert len(farm.rows(kinds)) == 2

    def test_receives_webhooks_beside_the_farm(self, farm: OwnFarm) -> None:
        counted = "SELECT words FROM notes_note WHERE text = 'a star from ada' AND words IS NOT NULL"
        assert farm.until("the delivery is processed, and its job done", counted) == [(4,)]
        assert farm.rows("SELECT status FROM webhooks_delivery") == [("processed",)]

    def test_has_a_webhook_start_its_job(self, farm: OwnFarm) -> None:
        started = """SELECT start.outcome, start.rule_name, job.kind, job.payload FROM webhooks_jobstart AS start
            JOIN jobs_job AS job ON job.id = start.job_id"""
        made = ("started", "github star.* print-note", "print-note", {"text": "a star from ada"})
        assert farm.until("the delivery is processed", started) == [made]

    def test_has_its_cron_fired(self, farm: OwnFarm) -> None:
        fired = """SELECT function, args FROM scheduling_scheduledfunction
            WHERE cron_id = 'notes: forget old ones' AND status = 'success'"""
        assert farm.until("the cron fires", fired) == [("notes.operations.forget", {"days": 30})]

    def test_is_held_to_its_limit(self, farm: OwnFarm) -> None:
        """One was taken by the page's own command."""
        answers = [farm.get("/notes/write/", data=b"more") for _ in range(3)]
        assert [status for status, _ in answers].count(429) >= 1
        assert answers[-1][1]["error"] == "rate_limited"

    def test_is_tested_as_the_page_says(self, farm: OwnFarm) -> None:
        farm.run(f"{farm.testing.rstrip()} --noinput")  # in place of the copy, which has the examples' tables
