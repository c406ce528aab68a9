"""A single PostgreSQL that has frozen: its kernel takes connections, and nobody answers. Whoever is asked how the farm
is says so in time, and every part ends in time."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from jobfarm.health import UNREACHABLE
from jobfarm.server import THREADS
from tests import forkserver
from tests.farm import until
from tests.operations import migrated, postgresqls
from tests.operations.postgresqls import DEBIAN_15, Server
from tests.ports import free_port

FROZEN = "The database is frozen: it takes connections, and answers none within 1.8 s."
TOKEN = "of-a-test" * 4
SLACK_S = 2.0  # of a busy machine
PARTS = {"janitor": ["janitor"], "mutations": ["cluster", "--mutations"], "actions": ["cluster", "--actions"]}
ENDS_WITHIN_S = {"web": 10.0, "janitor": 10.0, "mutations": 15.0, "actions": 15.0}


class Farm:
    """Every part but workers, on a server that can be stopped."""

    def __init__(self, server: Server, data: Path, stack: ExitStack) -> None:
        self.server = server
        self._data, self._stack = data, stack
        url = postgresqls.url(server)
        migrated.migrate(url, data)
        self.environment = os.environ | {"DATABASE_URL": url, "JOBFARM_DATA": str(data), "SECRET_KEY": "of-a-test" * 8}
        self.environment |= {"SCHEDULING_GRACE_S": "1", "JOBFARM_METRICS_TOKEN": TOKEN}
        self.environment.pop("DATABASE_DIRECT_URL", None)
        port = free_port()
        self.client = stack.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60))
        self.parts = {"web": self._start("web", "web", "--port", str(port))}
        self.parts |= {name: self._start(name, *words) for name, words in PARTS.items()}
        until(self.is_well, within_s=120, what="every part reports")

    def is_well(self) -> bool:
        """Whether all parts have reported."""
        try:
            checks = self.client.get("/health/ready").json()["checks"]
        except httpx.HTTPError:
            return False
        return {check["status"] for check in checks.values()} == {"ok"}

    def doctor(self) -> str:
        """What the operator sees."""
        return forkserver.run(["manage.py", "doctor"], env=self.environment, timeout=60, loaded=True).stdout

    def log(self, name: str) -> str:
        """What this part has logged."""
        return (self._data / f"{name}.log").read_text()

    def _start(self, name: str, *words: str) -> forkserver.Process:
        log = self._stack.enter_context((self._data / f"{name}.log").open("wb"))
        process = forkserver.Process(["manage.py", *words], env=self.environment, stdout=log, stderr=log, loaded=True)
        self._stack.callback(process.wait, 60)
        self._stack.callback(process.kill)
        return process


@pytest.fixture
def frozen(tmp_path: Path) -> Iterator[Farm]:
    """A farm whose database has just been stopped."""
    with postgresqls.primary(DEBIAN_15) as server, ExitStack() as stack:
        farm = Farm(server, tmp_path, stack)
        server.signal(signal.SIGSTOP)
        stack.callback(server.signal, signal.SIGCONT)
        yield farm


@pytest.mark.landing
def test_is_said_by_probes_and_doctor_in_time_and_keeps_no_process_from_its_end(frozen: Farm) -> None:
    with ThreadPoolExecutor(THREADS) as crowd:
        for _ in range(THREADS):  # every thread for requests waits for the database
            crowd.submit(_wait_for_the_database, str(frozen.client.base_url))
        for sentence in (UNREACHABLE, FROZEN):  # a probe is good for a second, so the first may be asked itself
            began = time.monotonic()
            answer = frozen.client.get("/health/ready")
            assert time.monotonic() - began < 2.0 + SLACK_S
            assert answer.status_code == 503
            assert answer.json()["checks"]["database"]["messages"][0] in {sentence, FROZEN}
            assert frozen.client.get("/health/live").status_code == 200
        metrics = frozen.client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        assert "jobfarm_database_up 0.0" in metrics.text
        began = time.monotonic()
        assert FROZEN in frozen.doctor()
        assert time.monotonic() - began < 12.0
        _each_part_ends(frozen)


def _wait_for_the_database(url: str) -> None:
    with contextlib.suppress(httpx.HTTPError):  # the server ends meanwhile
        httpx.get(f"{url}/api/v1/jobs", headers={"Authorization": "Bearer nobodys"}, timeout=60)


def _each_part_ends(farm: Farm) -> None:
    began = time.monotonic()
    for process in farm.parts.values():
        process.terminate()
    for name, process in farm.parts.items():
        process.wait(max(began + ENDS_WITHIN_S[name] + SLACK_S - time.monotonic(), 0.0))
    assert "CancelledError" not in farm.log("web")
