"""Who plays, on which queues, and how a run goes: processes are killed and connections cut, what is left is done, and
the checker looks at all of it."""

import contextlib
import os
import random
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from django.contrib.auth.models import Group, User
from django.db import connection

from core.backoff import Backoff
from jobs import operations
from jobs.errors import LeaseLost
from jobs.models import Job, Worker
from tests import farm, forkserver
from tests.formal import paths
from tests.hammer import recording
from tests.histories import checking, recording as written
from tests.histories.history import Bound

LEASE_S: Final = 1.5
_LIVING: Final = ("pending", "in_progress")
QUEUES: Final = ("one", "one", "two", "three")
CEILING_OF_TWO: Final = 3
KEYS: Final = ("disk", "net")
OF_ONE_KEY: Final = 2  # jobs of a concurrency key that run at a time
BRANCHES: Final = 3  # keys of which the last push is to be run
CONFLICTS: Final[tuple[dict[str, Any], ...]] = (
    {"on_conflict": "replace"}, {"on_conflict": "after"}, {"debounce": {"quiet": 0.2, "at_most": 1.0}},
)  # fmt: skip
PEOPLE: Final = ("ada", "bob")
ROLES: Final = (
    *("submit", "bulk", "keys", "keys", "push", "push"), *("work",) * 5,
    *("cancel", "janitor", "tidy", "tidy", "move", "labels", "ceiling", "signal"),
)  # fmt: skip
_RUNNING_IN_TWO: Final = "SELECT count(*) FROM jobs_live WHERE queue = 'two' AND lease_secret IS NOT NULL"
_HIDDEN: Final = """
SELECT count(*) FROM jobs_live AS job WHERE job.lease_secret IS NULL
AND NOT EXISTS (SELECT FROM jobs_mark AS mark WHERE mark.lane_id = job.lane_id AND mark.at <= job.run_at)
"""
_CUT: Final = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
ORDER BY random() LIMIT 1
"""


@dataclass
class Report:
    """What a run came to."""

    faults: list[str]
    ended: Counter[str]
    kills: int = 0
    cuts: int = 0
    answers: Counter[str] = field(default_factory=Counter)


def prepare() -> list[int]:
    """Queues, people, and workers of all scopes; the workers' ids."""
    for kind, most in (("work", None), ("keyed", OF_ONE_KEY)):
        backoff = Backoff(first_s=0.05, cap_s=0.2)
        operations.create_kind(operations.Kind(name=kind, queue="one", backoff=backoff, concurrency=most))
    club, _ = Group.objects.get_or_create(name="club")
    people = [User.objects.create_user(name) for name in PEOPLE]
    people[0].groups.add(club)
    workers = []
    for number, owner in enumerate([None, None, None, people[0], people[1]]):
        worker, _ = operations.create_worker(f"w{number}", queues=("one", "two", "three"), owner=owner)
        workers.append(worker.pk)
    operations.set_ceiling("two", CEILING_OF_TWO)
    operations.set_labels(Worker.objects.get(pk=workers[0]), {"gpu": "yes"}, by=None)
    operations.seen(workers)
    return workers


def run(seconds: float, folder: Path, *, seed: int = 1, planted: str = "") -> Report:
    """Hammer this database for so long, and check. `planted` is a fault that the processes get (`actors`)."""
    workers = prepare()
    recording.install()
    try:
        stage = _Stage(folder, workers, seconds=seconds, rng=random.Random(seed), planted=planted)
        faults = stage.play()
        with (folder / "drain.calls").open("w") as file:
            _drain(workers, written.Recorder(file, process="drain"))
        history = recording.facts()
        history.calls = list(written.calls(folder.glob("*.calls")))
        history.bounds = [Bound(name="queue two", most=CEILING_OF_TWO, until=stage.until)]
        history.bounds += [Bound(name=f"key {key}", most=OF_ONE_KEY) for key in KEYS]
        history.write(folder / "history.jsonl.gz")
        faults += checking.faults(history) + paths.faults(history, folder)
        states = history.states or {}
        faults += [f"job {job}: is left {status}" for job, status in states.items() if status in _LIVING]
        answers = Counter(f"{one.call} {one.answer or one.outcome}" for one in history.calls)
        return Report(faults, Counter(states.values()), stage.kills, stage.cuts, answers)
    finally:
        recording.remove()


@dataclass
class _Stage:
    """The processes of a run, and who kills, cuts and watches them."""

    folder: Path
    workers: list[int]
    seconds: float
    rng: random.Random
    planted: str
    until: float = 0.0
    started: int = 0
    kills: int = 0
    cuts: int = 0
    faults: list[str] = field(default_factory=list)

    def play(self) -> list[str]:
        """Kill, cut and watch until the time is over; what the watcher has seen."""
        self.processes = [self._start(place) for place in range(len(ROLES))]
        # However long a busy machine takes to start them: the time is that of all of them together.
        farm.until(lambda: len(list(self.folder.glob("*.calls"))) >= len(ROLES), within_s=120)
        self.until = time.time() + self.seconds
        farm.until(self._turn, within_s=self.seconds + 60)
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(timeout=60)
        return self.faults

    def _turn(self) -> bool:
        """One look, and by the dice a kill or a cut; whether the time is over."""
        self.faults += self._watch()
        if self.rng.random() < 0.02:
            place = self.rng.randrange(len(ROLES))
            self.processes[place].kill()
            self.processes[place].wait()
            self.processes[place] = self._start(place)
            self.kills += 1
        if self.rng.random() < 0.007:
            with connection.cursor() as cursor:
                cursor.execute(_CUT)
                self.cuts += 1
        return time.time() >= self.until

    def _watch(self) -> list[str]:
        """Two snapshots: the queue whose ceiling never moves is never above it, and each job that waits has a mark."""
        with connection.cursor() as cursor:
            cursor.execute(_RUNNING_IN_TWO)
            [count] = cursor.fetchone() or [0]
            cursor.execute(_HIDDEN)
            [hidden] = cursor.fetchone() or [0]
        above = [f"{count} run in a queue with a ceiling of {CEILING_OF_TWO}"] if count > CEILING_OF_TWO else []
        return above + ([f"{hidden} wait where no claim looks"] if hidden else [])

    def _start(self, place: int) -> forkserver.Process:
        self.started += 1
        environment = {
            **os.environ,
            "JOBFARM_TEST_DATABASE": str(connection.settings_dict["NAME"]),
            "JOBFARM_LEASE_S": str(LEASE_S), "JOBFARM_HEARTBEAT_S": "0.5", "JOBFARM_HEAD_START_S": "0.1",
            "DJANGO_SETTINGS_MODULE": "jobfarm.settings",
            "HAMMER_PLANTED": self.planted,
        }  # fmt: skip
        turn = ROLES[:place].count("work")
        worker = self.workers[turn] if ROLES[place] == "work" else 0
        words = [ROLES[place], str(worker), str(self.started), str(self.folder)]
        return forkserver.Process(["-m", "tests.hammer.actors", *words], env=environment, loaded=True)


def waits_of(finished: Iterable[operations.Finished]) -> dict[str, Any]:
    """What those of these that end suspended wait for, as the checker reads it: of a job by its newest lease, since a
    worker may hand in an older one beside, which is lost."""
    waits: dict[str, Any] = {}
    for one in {one.job_id: one for one in sorted(finished, key=lambda one: one.lease.fence)}.values():
        if one.outcome == "suspended" and one.wait.until is not None:
            waits[str(one.job_id)] = {"until_s": one.wait.until.timestamp()}
        elif one.outcome == "suspended":
            waits[str(one.job_id)] = {"signal": one.wait.signal, "timeout": one.wait.timeout_s}
    return {"waits": waits} if waits else {}


def note_claimed(call: written.Open, claimed: Iterable[operations.ClaimedJob]) -> None:
    """The claims that a call brought, also none, with the signals that came."""
    call.nothing()
    for job in claimed:
        brought: dict[str, Any] = {} if job.signal is None else {"signal": asdict(job.signal)}
        call.answer(job.id, job.lease.fence, call="claim", **brought)


def _drain(workers: list[int], recorder: written.Recorder) -> None:
    """Whatever is left is done by all workers in turn, since one that failed a job leaves it to others for a while.
    What does not end within a minute is a fault."""
    operations.resume("three")
    for queue in ("two", "three"):
        operations.set_ceiling(queue, None)
    everybody = list(Worker.objects.filter(pk__in=workers).order_by("pk"))
    operations.set_labels(everybody[0], {"gpu": "yes"}, by=None)

    def is_done() -> bool:
        operations.sweep()
        for worker in everybody:
            with recorder.call("claim", worker=worker.pk) as call:
                claimed = operations.claim(worker, limit=200)
                note_claimed(call, claimed)
            done = [operations.Finished(job_id=job.id, lease=job.lease, outcome="success") for job in claimed]
            with recorder.call("finish", worker=worker.pk) as call:
                for job, answer in zip(claimed, operations.finish(worker, done), strict=True):
                    is_lost = isinstance(answer, LeaseLost)
                    call.answer(job.id, job.lease.fence, getattr(answer, "code", answer), is_refusal=is_lost)
        return not Job.objects.living().exists()

    with contextlib.suppress(AssertionError):  # job by job, whatever is left is among the faults
        farm.until(is_done, within_s=60)
