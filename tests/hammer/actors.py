"""One process of the hammer: `python -m tests.hammer.actors ROLE WORKER SEED UNTIL FOLDER`. It may be killed anywhere.

Each calls the farm's own operations in transactions of their own, as the network and the pages do, and writes down
what it was told.
"""

import contextlib
import functools
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TextIO

import django
from django.db import DatabaseError, connection

django.setup()

from django.contrib.auth.models import Group, User  # noqa: E402
from django.utils import timezone  # noqa: E402

from jobs import operations  # noqa: E402
from jobs.errors import JobsError, LeaseLost  # noqa: E402
from jobs.models import Job, Suspension, Worker  # noqa: E402
from tests import farm  # noqa: E402
from tests.hammer import planted, scene  # noqa: E402
from tests.histories.recording import Open, Part, Recorder  # noqa: E402

# What each role leaves between two rounds, so that two processors serve all of them: a rate, nothing is waited for.
PAUSES_S: Final = {
    "submit": 0.0, "bulk": 0.1, "keys": 0.05, "work": 0.01, "cancel": 0.1, "janitor": 0.1, "tidy": 0.05, "move": 0.1,
    "push": 0.02, "labels": 0.2, "ceiling": 0.15, "signal": 0.02,
}  # fmt: skip


class Actor:
    """What one process does again and again, by dice of its own."""

    def __init__(self, *, worker: int, seed: int, file: TextIO) -> None:
        self.rng = random.Random(seed)
        self.worker = Worker.objects.get(pk=worker) if worker else None
        self.held: list[operations.ClaimedJob] = []
        self.silent_until = 0.0
        self.recorder = Recorder(file, process=Path(file.name).stem, refuses=lambda error: isinstance(error, JobsError))
        self.recorded = functools.partial(self.recorder.call, worker=worker or None)

    # -- who brings jobs

    def draw(self) -> dict[str, Any]:
        """Whose a job is, where it goes, and when."""
        rng = self.rng
        owner = rng.choice([None, *User.objects.filter(username__in=scene.PEOPLE)])
        club = Group.objects.get(name="club") if owner and owner.username == "ada" and rng.random() < 0.5 else None
        now = timezone.now()
        return {
            "queue": rng.choice(scene.QUEUES), "priority": rng.choice([0, 0, 0, 5]), "owner": owner, "group": club,
            "requires": rng.choice([None, None, None, {"gpu": "yes"}]),
            "run_at": rng.choice([None, None, None, now + timedelta(seconds=0.3)]),
            "expires_at": rng.choice([None, None, None, now + timedelta(seconds=0.5)]),
            "timeout_s": rng.choice([None, None, None, 0.4]),
        }  # fmt: skip

    def submit(self) -> None:
        key = self.rng.choice([*[None] * 6, *scene.KEYS])
        options: dict[str, Any] = {"concurrency_key": key} if key else {}
        with self.recorded("submit") as call:
            call.answer(operations.submit("keyed" if key else "work", {"n": 1}, **options, **self.draw()).pk)

    def bulk(self) -> None:
        options = self.draw()
        new = [farm.new_job(payload={"n": n}, **options) for n in range(self.rng.choice([5, 30]))]
        with self.recorded("submit") as call:
            for job_id in operations.submit_many(new):
                assert isinstance(job_id, int)
                call.answer(job_id)

    def keys(self) -> None:
        keys = [f"key {n}" for n in range(20)]
        self.rng.shuffle(keys)
        owner = User.objects.get(username=self.rng.choice(scene.PEOPLE))
        new = [farm.new_job(owner=owner, unique_key=key, payload={}) for key in keys[:8]]
        with self.recorded("submit") as call:
            call.nothing()
            for key, job_id in zip(keys, operations.submit_many(new), strict=False):
                if isinstance(job_id, int):
                    call.answer(job_id, unique=f"{owner} {key}")

    def push(self) -> None:
        """The newest of a key is to be run, whichever way: its payload says which that was."""
        label, key = f"push {self.rng.random()}", f"branch {self.rng.randrange(scene.BRANCHES)}"
        with self.recorded("submit") as call:
            job = operations.submit("work", {"push": label}, unique_key=key, **self.rng.choice(scene.CONFLICTS))
            call.answer(None, call="push", of=job.pk, label=label)
            if job.replaced_at is None:
                call.answer(job.pk)

    # -- who does them

    def work(self) -> None:
        assert self.worker is not None
        if time.time() < self.silent_until:
            return
        queues = self.rng.choice([None, None, ["two", "one"], ["three"]])
        request, limit = f"request {self.rng.random()}", self.rng.choice([1, 1, 5, 20])
        for _ in range(self.rng.choice([1, 1, 1, 2])):  # a second time: the answer was lost
            with self.recorded("claim") as call:
                claimed = operations.claim(self.worker, queues=queues, limit=limit, request_id=request)
                _note_claimed(call, claimed)
        self.held += [job for job in claimed if job.lease not in {one.lease for one in self.held}]
        for job in self.rng.sample(self.held, min(len(self.held), 5)):
            self.report(job)
        if self.rng.random() < 0.04:  # its jobs are lost, and it does not know
            self.silent_until = time.time() + scene.LEASE_S + 0.5
            return
        self.rng.shuffle(self.held)
        count = self.rng.choice([0, 1, len(self.held)])
        ending, self.held = self.held[:count], self.held[count:]
        if ending:
            self.end(ending)

    def report(self, job: operations.ClaimedJob) -> None:
        """A sign of life, of one kind or another."""
        assert self.worker is not None
        try:
            way = self.rng.random()
            with self.recorded("report", parts=_parts([job])):
                if way < 0.2:
                    operations.checkpoint(self.worker, job.id, job.lease, {"fence": job.lease.fence})
                elif way < 0.7:
                    operations.heartbeat(self.worker, job.id, job.lease, progress=self.rng.random())
                else:
                    operations.write_output(self.worker, job.id, job.lease, seq=0, text="hello")
        except LeaseLost:
            self.held = [one for one in self.held if one is not job]

    def end(self, jobs: list[operations.ClaimedJob]) -> None:
        """Hand them in, with the next claim or without, or give them back."""
        assert self.worker is not None
        way = self.rng.random()
        if way < 0.1:
            self.give_back(jobs)
            return
        finished = [self.finished(job) for job in jobs]
        with self.recorded("finish", parts=_parts(jobs), claims=way < 0.5, **scene.waits_of(finished)) as call:
            claimed: list[operations.ClaimedJob] = []
            if way < 0.5:
                answers, claimed = operations.finish_and_claim(self.worker, finished, limit=self.rng.choice([0, 1, 5]))
            else:
                answers = operations.finish(self.worker, finished)
            for entry, answer in zip(finished, answers, strict=True):
                is_lost = isinstance(answer, LeaseLost)
                call.answer(entry.job_id, entry.lease.fence, getattr(answer, "code", answer), is_refusal=is_lost)
            _note_claimed(call, claimed)
        self.held += claimed

    def finished(self, job: operations.ClaimedJob) -> operations.Finished:
        """How it ends, or what it waits for, as long as it was not claimed often."""
        way = self.rng.random()
        if way < 0.2 and job.lease.fence < 5:
            waits: list[dict[str, Any]] = [
                {"signal": "go", "timeout_s": 0.5},
                {"signal": "go", "timeout_s": 5.0},
                {"until": timezone.now() + timedelta(seconds=0.3)},
            ]
            wait = operations.Wait(**self.rng.choice(waits))
            return operations.Finished(job_id=job.id, lease=job.lease, outcome="suspended", wait=wait)
        outcome: Any = "success" if way < 0.84 else "failed"
        return operations.Finished(job_id=job.id, lease=job.lease, outcome=outcome, result={"ok": 1})

    def give_back(self, jobs: list[operations.ClaimedJob]) -> None:
        assert self.worker is not None
        if self.rng.random() < 0.5:
            with self.recorded("withdraw", parts=_parts(jobs)) as call:
                taken = operations.withdraw(self.worker, [(job.id, job.lease) for job in jobs])
                # It may hold an older lease of a job beside the newest one, and the answer names jobs.
                newest = dict(sorted((job.id, job.lease.fence) for job in jobs))
                for job in jobs:
                    is_taken = job.id in taken and job.lease.fence == newest[job.id]
                    call.answer(job.id, job.lease.fence, "withdrawn" if is_taken else "kept")
            return
        for job in jobs:
            with contextlib.suppress(LeaseLost), self.recorded("release", parts=_parts([job])):
                operations.release(self.worker, job.id, job.lease)

    # -- who is around

    def signal(self) -> None:
        """Somebody sends what jobs wait for, now and then twice, as their times run out and others cancel them."""
        waiting = list(Suspension.objects.filter(signal="go", taken=None).values_list("pk", flat=True)[:20])
        for job_id in self.rng.sample(waiting, min(len(waiting), 3)):
            key = f"go-{self.rng.random()}"
            for _ in range(self.rng.choice([1, 1, 2])):
                with self.recorded("signal", parts=[(job_id, None)], name="go", data={"id": key}) as call:
                    is_new = operations.signal(job_id, "go", {"id": key}, by=None, key=key)
                    call.answer(job_id, None, is_new=is_new)

    def cancel(self) -> None:
        living = list(Job.objects.living().values_list("pk", flat=True)[:60])
        for job_id in self.rng.sample(living, min(len(living), 5)):
            with self.recorded("cancel", parts=[(job_id, None)]) as call:
                canceled = operations.cancel(job_id, by=None)
                call.answer(job_id, None, canceled.verdict.value, status=canceled.status.value)

    def janitor(self) -> None:
        operations.sweep()

    def tidy(self) -> None:
        """As each process that claims does, and the janitor."""
        operations.tend_lanes()

    def labels(self) -> None:
        """Who may take what asks for a GPU changes."""
        worker = self.rng.choice(list(Worker.objects.order_by("pk")))
        operations.set_labels(worker, self.rng.choice([{}, {"gpu": "yes"}]), by=None)

    def move(self) -> None:
        """Somebody has a job that waits go first, or now."""
        waiting = list(Job.objects.waiting().order_by("-pk").values_list("pk", flat=True)[:40])
        for job_id in self.rng.sample(waiting, min(len(waiting), 5)):
            if self.rng.random() < 0.5:
                operations.change_priority(job_id, self.rng.choice([0, 5, 7]), by=None)
            else:
                operations.run_now(job_id, by=None)

    def ceiling(self) -> None:
        """The ceiling of queue three moves, and queue three rests now and then. That of queue two stays."""
        operations.set_ceiling("three", self.rng.choice([1, 2, 5, 20, None]))
        operations.resume("three")
        if self.rng.random() < 0.2:
            operations.pause("three")


def _note_claimed(call: Open, claimed: list[operations.ClaimedJob]) -> None:
    """What a claim brought, and of a push which one it is."""
    scene.note_claimed(call, claimed)
    for job in claimed:
        if label := job.payload.get("push"):
            call.answer(None, call="given", of=job.id, label=label)


def _parts(jobs: list[operations.ClaimedJob]) -> Sequence[Part]:
    return [(job.id, job.lease.fence) for job in jobs]


def main(role: str, worker: str, seed: str, folder: str) -> None:
    """Play a role until SIGTERM. A connection that is cut is made anew; a refusal is an answer."""
    is_over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    planted.plant(os.environ["HAMMER_PLANTED"])
    path = Path(folder) / f"{role}.{worker}.{seed}.calls"
    with path.open("a") as file:
        actor = Actor(worker=int(worker), seed=int(seed), file=file)
        act: Callable[[], None] = getattr(actor, role)
        while not is_over.wait(PAUSES_S[role]):
            try:
                act()
            except JobsError:
                pass
            except DatabaseError:
                connection.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
