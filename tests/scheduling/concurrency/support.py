"""Real clusters for tests: processes on the database of the test, and ways to kill them."""

import contextlib
import os
import random
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from django.db import connection

from scheduling.models import Cluster, ScheduledFunction
from tests.effort import share
from tests.forkserver import Process

T = TypeVar("T")
_CLUSTER = ("-W", "error::RuntimeWarning", "manage.py", "cluster", "--skip-checks")
# Of kills, at least: of each sort of process a few die, idle and busy. `make chaos` looks for what is rarer.
SECONDS = float(os.environ.get("SCHEDULING_TEST_SECONDS", share(15, of=2)))


class Supervisor:
    """A `manage.py cluster`. Its processes are found in /proc: it, its dispatcher, and the dispatcher's workers."""

    def __init__(self, *words: str, log: Path, **environment: str) -> None:
        self._words = words
        self._log = log
        self._environment = environment
        self._process: Process | None = None

    def start(self) -> None:
        """Start it; its cluster follows a moment later."""
        name = str(connection.settings_dict["NAME"])
        given = {**os.environ, "JOBFARM_TEST_DATABASE": name, "PYTHONUNBUFFERED": "1", **self._environment}
        with self._log.open("ab") as log:
            self._process = Process(
                [*_CLUSTER, *self._words], env=given, stdin=subprocess.DEVNULL, stdout=log, stderr=log, loaded=True
            )

    @property
    def pid(self) -> int:
        """The keeper's own process."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """What it and its processes said."""
        return self._log.read_text(errors="replace")

    def dispatcher(self) -> int | None:
        """The dispatcher's process, if it lives."""
        return next(iter(children(self.pid)), None)

    def processes(self) -> list[int]:
        """The dispatcher and its workers."""
        dispatcher = self.dispatcher()
        return [dispatcher, *children(dispatcher)] if dispatcher else []

    def everything(self) -> list[int]:
        """All of its processes, itself first."""
        return [self.pid, *self.processes()]

    def terminate(self) -> None:
        """Ask it to end."""
        assert self._process is not None
        self._process.terminate()

    def wait(self, seconds: float) -> int:
        """Wait for its end; the exit code."""
        assert self._process is not None
        return self._process.wait(seconds)

    def kill_all(self) -> None:
        """SIGKILL for all of its processes."""
        for pid in self.everything():
            kill(pid)
        self.wait(10)

    def end(self) -> None:
        """Ask it to end, if it runs; `expect_end` waits for it."""
        if self._process is not None and self._process.poll() is None:
            self.terminate()

    def expect_end(self) -> None:
        """Wait until it has ended; an AssertionError if it does not."""
        try:
            self.wait(60)
        except subprocess.TimeoutExpired:
            self.kill_all()
            raise AssertionError(f"a cluster did not stop:\n{self.log[-5000:]}") from None


@contextlib.contextmanager
def keepers(*clusters: str, **environment: str) -> Iterator[list[Supervisor]]:
    """Clusters that run, for the length of the block, started and stopped together: `keepers("--mutations",
    "--actions --workers 8")`."""
    with tempfile.TemporaryDirectory() as folder:
        made = [
            Supervisor(*words.split(), log=Path(folder) / f"{n}.log", **environment) for n, words in enumerate(clusters)
        ]
        try:
            for one in made:
                one.start()
            until(lambda: all(map(is_up, made)), what=lambda: "\n".join(one.log[-3000:] for one in made))
            yield made
        finally:
            for one in made:
                one.end()
            for one in made:
                one.expect_end()


@contextlib.contextmanager
def supervisor(*words: str, **environment: str) -> Iterator[Supervisor]:
    """One cluster that runs, for the length of the block: `keeper("--mutations")`."""
    with keepers(" ".join(words), **environment) as [one]:
        yield one


def is_up(made: Supervisor) -> bool:
    """Whether its present cluster has reported."""
    return Cluster.objects.filter(pid=made.dispatcher() or 0, ended_at=None, last_seen_at__isnull=False).exists()


def children(pid: int) -> list[int]:
    """The living child processes of a process."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [child for child in map(int, text.split()) if is_alive(child)]


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def are_gone(pids: list[int]) -> bool:
    """Whether none of these processes runs."""
    return not any(is_alive(pid) for pid in pids)


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to a process that may have ended already."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def until(
    check: Callable[[], T], *, within_s: float = 60, what: Callable[[], str] = lambda: "it", pause_s: float = 0.02
) -> T:
    """What `check` returns once that is true; an AssertionError if that takes too long."""
    deadline = time.monotonic() + within_s
    while not (answer := check()):
        if time.monotonic() > deadline:
            raise AssertionError(f"did not come within {within_s} s: {what()}")
        time.sleep(pause_s)
    return answer


def states(**of: str) -> dict[str, int]:
    """How many functions there are in each state: `states()`, `states(kind="action")`."""
    return dict(Counter(ScheduledFunction.objects.filter(**of).values_list("status", flat=True)))


def all_ended() -> bool:
    """Whether nothing is pending or in progress."""
    return not ScheduledFunction.objects.filter(ended_at=None).exists()


def kill_one(keepers: list[Supervisor], rng: random.Random) -> int | None:
    """SIGKILL for one process of one cluster: mostly a worker, now and then another one."""
    processes = rng.choice(keepers).processes()
    if not processes:
        return None
    victim = rng.choice(processes)
    kill(victim)
    return victim
