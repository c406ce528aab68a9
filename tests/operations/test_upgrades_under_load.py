"""A farm at work is brought from the wheel of the previous commit to this one's, and back."""

import os
import subprocess
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from postgres import embedded
from tests.operations import postgresqls, wheels
from tests.operations.wheels import ROOT
from tests.ports import free_port

WITHIN_S = 90.0
AT_A_TIME = 25  # jobs between one step and the next
PAUSE_S = 0.02  # after a refusal, and between two jobs
COMMITS = 20  # as far back
# Each run of a job is a line; O_APPEND keeps lines whole.
STEPS = """
import os, time
def work(job):
    ran = os.open(os.environ["RAN"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(ran, f"{job.id}\\n".encode())
    os.close(ran)
    time.sleep(0.02)
"""


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


def previous() -> str:
    """The newest commit before this one that is a package; this one, where there is none (a clone without history)."""
    for revision in _git("rev-list", f"--max-count={COMMITS}", "--skip=1", "HEAD").split():
        if 'name = "jobfarm"' in _git("show", f"{revision}:pyproject.toml"):
            return revision
    return "HEAD"


def _tree_of(revision: str, into: Path) -> Path:
    into.mkdir()
    _git("archive", "--output", f"{into}.tar", revision)
    subprocess.run(["tar", "-xf", f"{into}.tar", "-C", str(into)], check=True, timeout=60)
    return into


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The programs of both versions."""
    if not (ROOT / ".git").exists():
        pytest.skip("there is no previous version in a tree without its repository")
    folder = tmp_path_factory.mktemp("releases")
    trees = {"old": _tree_of(previous(), folder / "tree"), "new": wheels.context(folder / "this")}
    return {
        name: wheels.install(wheels.build(tree, folder / f"{name}-dist"), folder / name, extras=["server"])
        for name, tree in trees.items()
    }


class Load:
    """Submits one job after the other, each with a key, as a client does that has to know whether it is there."""

    def __init__(self, url: str, token: str) -> None:
        self.acknowledged: list[int] = []
        self._ended = threading.Event()
        self._api = httpx.Client(base_url=f"{url}/api/v1/", headers={"Authorization": f"Bearer {token}"}, timeout=10)
        self._pool = ThreadPoolExecutor(1)

    def __enter__(self) -> "Load":
        self._run = self._pool.submit(self._submit)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._pool.shutdown()
        self._api.close()

    def stop(self) -> None:
        """Submit no more. Raises what went wrong with one that was refused."""
        self._ended.set()
        self._run.result()

    def _submit(self) -> None:
        while not self._ended.is_set():
            self.acknowledged.append(self._submitted(str(uuid.uuid4())))
            self._ended.wait(PAUSE_S)

    def _submitted(self, key: str) -> int:
        """A farm that is away or ends is tried again, with the same key."""
        end = time.monotonic() + WITHIN_S
        while time.monotonic() < end:
            try:
                answer = self._api.post("jobs", json={"kind": "work", "payload": {}}, headers={"Idempotency-Key": key})
                if answer.status_code < 500:
                    return int(answer.raise_for_status().json()["id"])
            except httpx.TransportError:
                pass
            time.sleep(PAUSE_S)
        raise TimeoutError("the farm stays away")

    def ends(self, job: int) -> dict[str, Any]:
        """The job, once it has ended."""
        end = time.monotonic() + WITHIN_S
        while True:
            found: dict[str, Any] = self._api.get(f"jobs/{job}").raise_for_status().json()
            if found["ended_at"]:
                return found
            assert time.monotonic() < end, found
            time.sleep(PAUSE_S)


class Site:
    """A database of its own, a port, and what runs there."""

    def __init__(self, home: Path, database: str, releases: dict[str, Path]) -> None:
        port = free_port()
        self.port, self.home, self.releases = port, home, releases
        self.url, self.ran = f"http://127.0.0.1:{port}", home / "ran"
        self._programs: dict[str, subprocess.Popen[bytes]] = {}
        (home / "steps.py").write_text(STEPS)
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": str(home), "JOBFARM_ENV_FILE": "", "DATABASE_URL": database,
            "JOBFARM_DATA": str(home / "data"), "PYTHONPATH": str(home), "RAN": str(self.ran),
        }  # fmt: skip

    def command(self, release: str, *words: str) -> str:
        """The last line that a command prints."""
        done = subprocess.run(
            [self.releases[release] / "jobfarm", *words], env=self.environment, cwd=self.home, check=True, text=True,
            capture_output=True, timeout=WITHIN_S,
        )  # fmt: skip
        return (done.stdout.splitlines() or [""])[-1]

    @contextmanager
    def running(self) -> Iterator["Site"]:
        """Whatever was started in the block ends with it."""
        try:
            yield self
        finally:
            for program in reversed(self._programs.values()):  # the worker while the farm is there
                program.terminate()
                program.wait(timeout=WITHIN_S)

    def replace(self, program: str, release: str, *words: str, **more: str) -> None:
        """Run this version of a program. SIGTERM ends the one before, which has to end well."""
        if program in self._programs:
            self._programs[program].terminate()
            assert self._programs[program].wait(timeout=WITHIN_S) == 0, self._log(program).read_text()
        with self._log(program).open("ab") as log:
            self._programs[program] = subprocess.Popen(
                [self.releases[release] / program, *words], env={**self.environment, **more}, cwd=self.home,
                stdout=log, stderr=log,
            )  # fmt: skip

    def _log(self, program: str) -> Path:
        return self.home / f"{program}.log"

    def lines(self) -> list[int]:
        """The jobs that were begun, once for each time."""
        return [int(line) for line in self.ran.read_text().split()] if self.ran.exists() else []

    def wait_for_more(self) -> None:
        """Until so many more jobs were begun."""
        end, least = time.monotonic() + WITHIN_S, len(self.lines()) + AT_A_TIME
        while len(self.lines()) < least:
            assert time.monotonic() < end, f"{len(self.lines())} of {least} jobs"
            time.sleep(PAUSE_S)


@pytest.fixture
def site(tmp_path: Path, releases: dict[str, Path]) -> Iterator[Site]:
    """A farm's site, with the tables of the old version."""
    with ExitStack() as stack:
        database = stack.enter_context(postgresqls.primary(embedded.bin_folder()))
        of_farm = Site(tmp_path, postgresqls.url(database), releases)
        of_farm.command("old", "migrate")
        yield of_farm


@pytest.mark.landing
def test_every_acknowledged_job_runs_once_through_an_upgrade_and_the_way_back(site: Site) -> None:
    site.command("old", "create_kind", "work")
    url, key = site.url, site.command("old", "create_worker", "w", "--queue", "work")
    worker = ("--handler", "work=steps:work", "--concurrency", "4")
    farm = ("farm", "--port", str(site.port))
    _make_administrator(site)
    with site.running(), Load(url, site.command("old", "create_token", "admin")) as load:
        site.replace("jobfarm", "old", *farm)
        site.replace("jobfarm-worker", "old", *worker, JOBFARM_KEY=key, JOBFARM_URL=url)
        site.wait_for_more()
        site.replace("jobfarm", "new", *farm)  # migrates first
        site.wait_for_more()
        # While the farm is there: a worker that ends without one can hand nothing in.
        site.replace("jobfarm-worker", "new", *worker, JOBFARM_KEY=key, JOBFARM_URL=url)
        site.wait_for_more()
        site.replace("jobfarm", "old", *farm)  # on tables of the new version
        site.wait_for_more()
        load.stop()
        ended = [load.ends(job) for job in load.acknowledged]
    assert {job["status"] for job in ended} == {"success"}
    assert len(ended) >= 4 * AT_A_TIME
    assert Counter(site.lines()) == Counter(load.acknowledged)


def _make_administrator(site: Site) -> None:
    site.environment["DJANGO_SUPERUSER_PASSWORD"] = uuid.uuid4().hex
    site.command("old", "createsuperuser", "--noinput", "--username", "admin", "--email", "admin@farm.example")
