"""A primary that dies, with a synchronous standby: nothing that was acknowledged is lost, nothing is done twice."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import psycopg
import pytest

from postgres import probe
from postgres.probe import Verdict
from tests.farm import until
from tests.operations import postgresqls
from tests.operations.postgresqls import DEBIAN_15, ROOT, Server
from tests.operations.proxies import free_port

BEFORE, AFTER = 40, 40  # jobs that are acknowledged on either side of the failover
MAKE = """
import json
from accounts import operations as accounts
from jobs import operations
from tests import farm
ada = farm.user()
operations.create_kind(operations.Kind(name="work"))
print(json.dumps([accounts.create_token(ada, name="tests")[1], operations.create_worker("w", queues=["work"])[1]]))
"""


class Fleet:
    """A farm on both servers, whichever takes writes: web, janitor, clusters and a worker."""

    def __init__(self, url: str, data: Path, stack: ExitStack) -> None:
        done = postgresqls.manage(url, data, "migrate", "--verbosity=0")
        assert done.returncode == 0, done.stderr
        made = postgresqls.manage(url, data, "shell", "--no-imports", "-c", MAKE)
        assert made.returncode == 0, made.stderr
        token, key = json.loads(made.stdout)
        self._data, self._stack = data, stack
        self._environment = os.environ | {
            "DATABASE_URL": url,
            "JOBFARM_DATA": str(data),
            "SECRET_KEY": "of-a-test" * 8,
        }
        self.address = f"http://127.0.0.1:{free_port()}"
        self.client = stack.enter_context(
            httpx.Client(base_url=self.address, headers={"Authorization": f"Bearer {token}"}, timeout=30)
        )
        manage = [sys.executable, "manage.py"]
        self._start("web", *manage, "web", "--port", self.address.rpartition(":")[2])
        self._start("janitor", *manage, "janitor")
        self._start("mutations", *manage, "cluster", "--mutations")
        until(self._is_up, within_s=60, what="the web server")
        about = {"JOBFARM_KEY": key, "JOBFARM_URL": self.address}
        self._start(
            "worker", sys.executable, "-m", "jobfarm_worker", "--handler", "work=builtins:bool", **about
        )

    def submit(self, key: str) -> int:
        """The id of a job that the farm acknowledged, asked for again until it does."""
        end = time.monotonic() + 60
        while True:
            assert time.monotonic() < end, "the farm acknowledges nothing for a minute"
            try:
                answer = self.client.post(
                    "/api/v1/jobs", json={"kind": "work", "payload": key}, headers={"Idempotency-Key": key}
                )
            except httpx.HTTPError:
                continue
            if answer.status_code in {200, 201}:
                return int(answer.json()["id"])
            assert answer.status_code >= 500, answer.text
            time.sleep(0.1)

    def logs(self) -> str:
        """What all parts said."""
        return "\n".join(f"== {log.name}\n{log.read_text()}" for log in sorted(self._data.glob("*.log")))

    def _is_up(self) -> bool:
        try:
            return self.client.get("/health/ready").status_code == 200
        except httpx.HTTPError:
            return False

    def _start(self, name: str, *command: str, **variables: str) -> None:
        log = self._stack.enter_context((self._data / f"{name}.log").open("wb"))
        process = subprocess.Popen(
            command, cwd=ROOT, env=self._environment | variables, stdout=log, stderr=log
        )
        self._stack.callback(process.wait, 60)
        self._stack.callback(process.send_signal, signal.SIGTERM)


@pytest.fixture
def servers() -> Iterator[tuple[Server, Server]]:
    """A primary whose commits wait for its standby."""
    with postgresqls.primary(DEBIAN_15) as primary, postgresqls.standby(primary) as standby:
        _do(primary, "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
        until(
            lambda: _ask(primary, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1"
        )
        yield primary, standby


def test_what_was_acknowledged_is_there_and_done_once_after_a_failover(
    servers: tuple[Server, Server], tmp_path: Path
) -> None:
    primary, standby = servers
    with ExitStack() as stack:
        fleet = Fleet(postgresqls.url(primary, standby), tmp_path, stack)
        acknowledged = [fleet.submit(f"before-{n}") for n in range(BEFORE)]
        primary.signal(signal.SIGKILL)
        standby.control("promote")
        acknowledged += [fleet.submit(f"after-{n}") for n in range(AFTER)]
        succeeded = "SELECT count(*) FROM jobs_job WHERE status = 'success'"
        try:
            until(
                lambda: _ask(standby, succeeded) == str(BEFORE + AFTER),
                within_s=90,
                what="the end of all jobs",
            )
        except AssertionError:
            raise AssertionError(fleet.logs()) from None
        assert len(set(acknowledged)) == BEFORE + AFTER
        assert _ask(standby, "SELECT count(*) FROM jobs_job") == str(BEFORE + AFTER), "each key made one job"
        assert _ask(standby, "SELECT array_agg(id ORDER BY id) FROM jobs_job") == str(sorted(acknowledged))
        with primary.again():
            assert probe.probe(postgresqls.url(primary)) is Verdict.STALLED, (
                "nothing is acknowledged by the old one"
            )


def _ask(server: Server, query: str) -> str:
    with psycopg.connect(postgresqls.url(server), autocommit=True) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return str(row[0])


def _do(server: Server, *sentences: str) -> None:
    with psycopg.connect(postgresqls.url(server), autocommit=True) as connection:
        for sentence in sentences:
            connection.execute(sentence)
