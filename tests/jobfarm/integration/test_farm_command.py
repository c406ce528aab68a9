"""`manage.py farm` as an operator meets it: one command, Ctrl-C, kill -9, and the sentences when it cannot start."""

import json
import os
import pty
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest

from jobfarm import processes
from jobfarm.environment import EXAMPLES
from postgres import descriptors
from postgres.embedded import places
from tests import forkserver, prepared
from tests.effort import IS_WHOLE
from tests.histories import checking, farm_calls
from tests.ports import free_port

ROOT = Path(__file__).parents[3]
TOKEN = "a-token-of-prometheus"
PATIENCE_S = 180.0  # a farm is up in 5 s on a machine that has nothing else to do; seven processes start for it
CLUSTERS = ("the cluster for mutations", "the cluster for actions")
# One process that waits: each that only looked would take a second of processor time for its start.
UNTIL = """
from itertools import chain
from jobs import operations
from postgres import connections
from scheduling import operations as scheduling
from scheduling.models import ScheduledFunction

def until(holds):
    with connections.listening(application_name="a test") as listener:
        listener.execute("LISTEN live")
        for _ in chain([None], listener.notifies(timeout=150)):  # of what a page would be told
            if holds():
                return
    raise TimeoutError
"""
UNTIL_A_CRON_FIRED = """
until(lambda: ScheduledFunction.objects.filter(cron_id="retention", status="success").exists())
"""
UNTIL_JOBS_ENDED = """
jobs = [operations.submit("chat", {"prompt": "hello"}).pk for _ in range(3)]
until(lambda: set(operations.statuses(jobs).values()) == {"success"})
"""
HOW_A_WRITE_OF_AN_ACTION_ENDS = """
row = scheduling.run_after(0, "tests.scheduling.integration.sample.write_directly", name="no")
until(lambda: row.refresh_from_db() or row.status not in {"pending", "in_progress"})
print(row.status, row.error_class)
"""
ACTION = "tests.scheduling.integration.sample.append"  # writes its line, then lingers
# In one process too. What was kept of the farms before; how many seconds the link is good for; and an action that would
# take 100 s.
KEPT_AND_A_LONG_ACTION = """
from accounts.models import OneTimeLink
from jobs.models import Kind
from scheduling import operations
link = OneTimeLink.objects.get()
print(Kind.objects.get().name, round((link.expires_at - link.created_at).total_seconds()))
operations.run_after(0, {action!r}, path={path!r}, line="x", seconds=100)
"""


class Farm:
    """A farm in a folder of its own, at a port the system chose."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.environment = {**os.environ, "JOBFARM_DATA": str(data), "PYTHONUNBUFFERED": "1", "SECRET_KEY": ""}
        self.environment["WEB_PROCESSES"] = "1"
        self.environment.pop("DATABASE_URL", None)
        self.environment.pop("REDIS_URL", None)
        self.process: subprocess.Popen[bytes] | None = None
        self.url = self.way_in = self.complaint = ""
        self.output: TextIO | None = None

    def start(self, *options: str, terminal: bool = False, python: str = sys.executable) -> None:
        """Start it, and read what it says up to where it is and how one gets in."""
        reader, writer = pty.openpty() if terminal else os.pipe()
        self.process = subprocess.Popen(
            [python, "manage.py", "farm", "--port", "0", *options],
            cwd=ROOT,
            env=self.environment,
            stdout=writer,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_few_files,  # noqa: PLW1509 (a test has no other threads)
        )
        os.close(writer)
        self.output = os.fdopen(reader)
        spoken = []
        for line in self.output:
            spoken.append(line)
            if line.startswith("Ctrl-C stops all"):
                self.url = re.findall(r"is starting at (http://[\d.]+:\d+)", "".join(spoken))[0]
                self.complaint = next((each for each in spoken if "root's rights" in each), "")
                self.way_in = spoken[-2].strip()
                until(self.answers, "the farm answers")
                return
        raise AssertionError("no address:\n" + "".join(spoken))

    def answers(self) -> bool:
        """Whether the log-in page is served."""
        try:
            with urllib.request.urlopen(f"{self.url}/accounts/login/", timeout=5) as response:
                return bool(response.status == 200)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    def manage(self, *words: str) -> str:
        """What another management command says."""
        command = ["manage.py", *words]
        return forkserver.run(command, env=self.environment, timeout=PATIENCE_S, check=True).stdout

    def signal(self, number: int) -> int:
        """Send the supervisor a signal and wait for its end; its exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE_S)
        assert self.output is not None
        self.output.close()
        return code

    def children(self) -> dict[str, int]:
        """The ids in the supervisor's note, by name."""
        return {entry["name"]: entry["pid"] for entry in json.loads((self.data / "farm.json").read_text())}

    def replaced(self, before: dict[str, int], name: str) -> bool:
        """Whether another process has this name now."""
        return self.children().get(name, before[name]) != before[name]

    def checks(self) -> dict[str, str]:
        """What /health/ready says of each thing."""
        with urllib.request.urlopen(f"{self.url}/health/ready", timeout=5) as response:
            return {name: check["status"] for name, check in json.load(response)["checks"].items()}

    def is_complete(self) -> bool:
        """Whether /health/ready finds nothing wrong: janitor and clusters have reported. A web process that was killed
        is told for a minute."""
        try:
            return {status for name, status in self.checks().items() if name != "web"} == {"ok"}
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    def hears(self, words: str) -> None:
        """Read on in what it says, up to a line with these words."""
        assert self.output is not None
        assert any(words in line for line in self.output), f"it never said {words!r}"

    def left_running(self) -> list[str]:
        """Every process that was started for this folder and still runs."""
        mine = f"JOBFARM_DATA={self.data}".encode()
        return [name for name, environment in _environments() if mine in environment.split(b"\0")]


def _few_files() -> None:
    """As many as shells often allow."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, most_files()), hard))


def most_files() -> int:
    """How many the system lets a farm's processes open."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return descriptors.MOST if hard == resource.RLIM_INFINITY else min(hard, descriptors.MOST)


def _environments() -> Iterator[tuple[str, bytes]]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            if state != "Z":
                yield (folder / "cmdline").read_text().replace("\0", " "), (folder / "environ").read_bytes()
        except OSError:
            continue


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for what another process does; an AssertionError that names it if it does not come."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S} s: {what}"
        time.sleep(0.05)


@pytest.fixture
def fresh_farm(tmp_path: Path) -> Iterator[Farm]:
    """A farm that has never been started where the run is to be whole, and is gone afterwards, whatever the test did to
    it."""
    with one_farm(tmp_path / "var", is_fresh=IS_WHOLE) as made:
        yield made


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Farm]:
    """The same, with its database made and migrated."""
    with one_farm(tmp_path / "var") as made:
        yield made


@contextmanager
def one_farm(data: Path, *, is_fresh: bool = False) -> Iterator[Farm]:
    """A farm with its data there, of which nothing but that folder is left afterwards. Unless it `is_fresh`, its
    database is made and migrated: nothing else is in it."""
    made = Farm(data)
    if not is_fresh:
        prepared.into(data)
    yield made
    if made.process is not None and made.process.poll() is None:
        made.signal(signal.SIGTERM)
    processes.end_leftovers(made.data)
    until(lambda: made.left_running() == [], "nothing is left running")
    place = places.location(made.data)
    if place.home.parent == places.ROOT_FOLDER:
        for path in (place.home, place.start_lock, place.users_lock):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


class TestFarm:
    def test_replaces_what_is_killed_works_and_leaves_nothing_running_after_ctrl_c(self, fresh_farm: Farm) -> None:
        """Both clusters do their work: an interval fires at once when it is new."""
        farm, history = fresh_farm, fresh_farm.data.parent / "history.gz"
        farm.environment |= {"JOBFARM_APPS": f"{EXAMPLES},tests.histories", "RECORDED_INTO": str(history)}
        farm.start("--with-worker")
        assert farm.way_in == (
            "This is not a terminal. For a link that logs admin in: manage.py login_link admin --url " + farm.url
        )
        before = farm.children()
        assert set(before) == {"web", "janitor", *CLUSTERS, "worker"}
        files = {resource.prlimit(pid, resource.RLIMIT_NOFILE)[0] for pid in before.values()}
        assert files == {most_files()}
        assert farm.manage("login_link", "admin").startswith(farm.url), "whatever PORT is there"
        assert bool(farm.complaint) is (os.geteuid() == 0), "pytest's folders are closed to others"
        until(farm.is_complete, "the clusters report")
        for name in ("web", CLUSTERS[0]):
            os.kill(before[name], signal.SIGKILL)
        until(lambda: farm.replaced(before, "web") and farm.replaced(before, CLUSTERS[0]), "they are started again")
        until(farm.answers, "the new server answers at the old address")
        until(farm.is_complete, "the new cluster reports")
        ended = farm.manage(
            "shell", "-v0", "-c", UNTIL + UNTIL_A_CRON_FIRED + UNTIL_JOBS_ENDED + HOW_A_WRITE_OF_AN_ACTION_ENDS
        )
        assert "WriteOutsideMutation" in ended, "whoever starts a farm like that develops: its guards are on"
        assert farm.signal(signal.SIGINT) == 0
        assert farm.left_running() == []
        assert {"farm.json", "farm.url"}.isdisjoint(path.name for path in farm.data.iterdir())
        written = farm_calls.read(history)
        assert checking.faults(written) == []
        assert {call.job for call in written.calls if (call.call, call.answer) == ("finish", "success")} == {1, 2, 3}

    @pytest.mark.landing
    def test_takes_its_children_along_when_it_is_killed_and_cleans_up_at_the_next_start(self, farm: Farm) -> None:
        """The third says what it waits for, and ends at once at a second Ctrl-C."""
        farm.environment |= {"SCHEDULING_GRACE_S": "1000"}
        farm.start()
        farm.manage("create_kind", "kept")
        until(farm.is_complete, "the clusters report")
        self._is_left_alone_by_a_second_one_in_its_folder(farm)
        assert farm.signal(signal.SIGKILL) == -signal.SIGKILL
        until(lambda: farm.left_running() == [], "everything ends with the farm, the clusters' processes too")
        own = farm.manage("shell", "-v0", "-c", "from core.commands import own_url; print(own_url())")
        assert own.strip() != farm.url, "nobody listens there"

        farm.start()
        web = farm.children()["web"]
        os.kill(web, signal.SIGSTOP)  # it cannot follow its parent now
        farm.signal(signal.SIGKILL)

        farm.start(terminal=True)
        assert processes.born(web) is None
        assert farm.answers()
        self._lets_in_for_a_quarter_of_an_hour_and_ends_at_a_second_ctrl_c(farm)
        assert farm.left_running() == []
        assert not (farm.data / "farm.json").exists()

    def _is_left_alone_by_a_second_one_in_its_folder(self, farm: Farm) -> None:
        before = farm.children(), farm.left_running()
        for port in ("0", farm.url.rpartition(":")[2]):
            second = forkserver.run(["manage.py", "farm", "--port", port], env=farm.environment, timeout=PATIENCE_S)
            assert second.returncode == 1
            assert second.stderr == (
                f"CommandError: Another farm runs with the data in {farm.data}: stop it, or give this one a folder of "
                "its own (JOBFARM_DATA).\n"
            )
        assert (farm.children(), farm.left_running()) == before
        assert farm.is_complete()

    def _lets_in_for_a_quarter_of_an_hour_and_ends_at_a_second_ctrl_c(self, farm: Farm) -> None:
        """At a terminal, with a link for who sits there. The action would take 100 s, and could have all of them."""
        sentence, _, link = farm.way_in.partition(": ")
        assert sentence == "Log in as admin, once, within 15 minutes"
        with urllib.request.urlopen(link, timeout=5) as response:
            assert response.status == 200
        begun = farm.data / "begun"
        code = KEPT_AND_A_LONG_ACTION.format(action=ACTION, path=str(begun))
        kept, lasts = farm.manage("shell", "-v0", "-c", code).split()
        assert kept == "kept"
        assert 898 <= int(lasts) <= 900
        until(begun.exists, "the action runs")
        assert farm.process is not None
        farm.process.send_signal(signal.SIGINT)
        farm.hears("the cluster for actions to finish")  # and perhaps others that take their time to end
        assert farm.signal(signal.SIGINT) == 0


class TestSeveralWebProcesses:
    def test_share_one_port_where_each_serves_while_the_others_do_not(self, farm: Farm) -> None:
        farm.environment["JOBFARM_METRICS_TOKEN"] = TOKEN
        port = free_port()
        farm.start("--web", "2", "--metrics", str(port))
        webs = {name: pid for name, pid in farm.children().items() if name.startswith("web")}
        assert set(webs) == {"web 1", "web 2"}
        until(farm.is_complete, "all have reported")
        for pid in webs.values():
            os.kill(pid, signal.SIGSTOP)
            assert all(farm.answers() for _ in range(10)), "the other takes every connection"
            os.kill(pid, signal.SIGCONT)
        os.kill(webs["web 1"], signal.SIGKILL)
        while not farm.replaced(farm.children() | webs, "web 1"):
            assert farm.answers(), "nobody's new call is lost with one process"
        until(lambda: _requests(port + 3) is not None, "the new one shows its numbers")
        assert (_requests(port + 4) or 0) >= 10
        assert farm.signal(signal.SIGTERM) == 0
        assert farm.left_running() == []


def _requests(port: int) -> float | None:
    """How many requests a web process says that it answered, at the port of its own numbers; None: it does not yet."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            lines = answer.read().decode().splitlines()
    except urllib.error.URLError:
        return None
    return sum(float(line.split()[-1]) for line in lines if line.startswith("jobfarm_http_requests_total{"))


class TestManyFiles:
    def test_may_be_open_whatever_the_shell_allows(self) -> None:
        """As many as the system lets it raise the limit to."""
        script = "from postgres import descriptors; print(descriptors.allow_many())"
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        answers = [self._limit_of(script, (64, hard)) for hard in (64, min(limits[1], 4096), limits[1])]
        assert answers == [64, min(limits[1], 4096), min(limits[1], descriptors.MOST)]

    def _limit_of(self, code: str, limits: tuple[int, int]) -> int:
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            capture_output=True,
            check=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limits),
        )
        return int(done.stdout)


class TestFarmCannotStart:
    def _says(self, *options: str, **environment: str) -> tuple[int, str]:
        command = ["manage.py", "farm", *options]
        done = forkserver.run(command, env=os.environ | environment, timeout=PATIENCE_S)
        return done.returncode, done.stderr.strip()

    def test_says_which_port_is_in_use(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            code, output = self._says("--port", str(port), JOBFARM_DATA=str(tmp_path))
        assert code == 1
        assert output == (
            f"CommandError: Another program listens at 127.0.0.1:{port}: "
            "stop it, or choose another port with PORT=... ."
        )

    def test_without_a_web_process_says_so(self, tmp_path: Path) -> None:
        output = "CommandError: --web takes a number from 1 on."
        assert self._says("--web", "0", JOBFARM_DATA=str(tmp_path)) == (1, output)

    def test_says_which_database_does_not_answer_and_what_to_check(self, tmp_path: Path) -> None:
        code, output = self._says(
            "--port", "0", JOBFARM_DATA=str(tmp_path), DATABASE_URL="postgresql://me:hidden@127.0.0.1:1/farm"
        )
        assert code == 1
        assert len(output.splitlines()) == 1
        assert "127.0.0.1" in output
        assert "check" in output
        assert "hidden" not in output
