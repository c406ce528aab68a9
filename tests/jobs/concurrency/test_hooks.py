"""Hooks under races: what an app was told last is what the job is, for every job (docs/adr/0026)."""

import random
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import Group

from core.backoff import Backoff
from jobs import kinds, operations
from jobs.errors import LeaseLost
from jobs.models import Job, Worker
from jobs.operations import Discard, Kind, Move, Prepared
from tests import farm
from tests.effort import share

pytestmark = pytest.mark.django_db(transaction=True)
JOBS = 240


@pytest.fixture(autouse=True)
def _declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "DECLARED", dict(kinds.DECLARED))
    monkeypatch.setattr(kinds, "HOOKS", dict(kinds.HOOKS))
    operations.declare(
        Kind(name="work", max_attempts=2, backoff=Backoff(first_s=0), retry_when_lost=False),
        prepare=_prepare,
        on_transition=_moved,
    )
    operations.sync()


def _prepare(jobs: Sequence[Prepared]) -> Mapping[int, Any]:
    return {job.job_id: Discard(why="gone") for job in jobs if job.payload["n"] % 7 == 0}


def _moved(moves: Sequence[Move]) -> None:
    """Each job has a row of the app, named by its id and its status; a move finds it as the last one left it."""
    for move in moves:
        before = f"{move.job_id} {move.from_}"
        changed = Group.objects.filter(name=before).update(name=f"{move.job_id} {move.to}")
        assert changed == 1, f"{before} is not where the app stood"


class TestTheHooksOfAnApp:
    def test_is_what_happened_to_every_job(self, caplog: pytest.LogCaptureFixture) -> None:
        """Workers that finish, fail and give back, people who cancel, janitors: the row follows each job in step."""
        jobs = farm.submit(JOBS)
        Group.objects.bulk_create(Group(name=f"{job.pk} pending") for job in jobs)
        workers = [farm.worker(f"w{n}") for n in range(4)]
        farm.at_once(
            *(partial(_work, worker) for worker in workers),
            *(partial(_cancel, [job.pk for job in jobs if job.pk % 9 == n]) for n in range(2)),
            *[_sweep] * 2,
        )
        for worker in workers:  # what came back after the others had gone home
            _work(worker)
        _sweep()
        names = dict(name.split(" ") for name in Group.objects.values_list("name", flat=True))
        assert names == {str(job.pk): job.status for job in Job.objects.all()}
        assert set(names.values()) == {"success", "failed", "canceled", "timed_out"}
        assert caplog.text == ""


def _work(worker: Worker) -> None:
    rng = random.Random(worker.pk)
    while claimed := operations.claim(worker, limit=3):
        for job in claimed:
            match rng.randrange(5):
                case 0:
                    farm.fail(worker, job)
                case 1:
                    farm.expire_lease(job)
                case 2 if job.lease.fence == 1:
                    _give_back(worker, job)
                case _:
                    farm.succeed(worker, job, {"n": job.id})


def _give_back(worker: Worker, job: operations.ClaimedJob) -> None:
    try:
        operations.release(worker, job.id, job.lease)
    except LeaseLost:
        return


def _cancel(job_ids: Sequence[int]) -> None:
    for job_id in reversed(job_ids):
        operations.cancel(job_id, by=None)


def _sweep() -> None:
    for _ in range(share(20, of=4)):
        operations.sweep()
