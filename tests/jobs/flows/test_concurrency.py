"""Flows while all happens at once: no step starts early, none runs twice, and none is forgotten."""

import random
import threading
from functools import partial
from typing import Any

import pytest
from django.db import transaction

from jobs import operations
from jobs.models import Edge, EndedStep, Job, Live, Outcome, Worker
from postgres import connections, transactions
from tests import farm
from tests.effort import share

pytestmark = pytest.mark.django_db(transaction=True)
WORKERS = 6


@pytest.fixture
def worker() -> Worker:
    farm.kind()
    return farm.worker()


def test_two_last_ends_at_the_same_moment_let_the_one_after_them_go(worker: Worker) -> None:
    """No sweep helps: whoever looks last sees both."""
    for _ in range(share(200, of=8)):
        *_, last = operations.submit_many([
            farm.new_job(name="a"), farm.new_job(name="b"), farm.new_job(after=["a", "b"]),
        ])  # fmt: skip
        jobs = operations.claim(worker, limit=9)
        assert len(jobs) == 2
        farm.at_once(*[partial(farm.succeed, worker, job) for job in jobs])
        [job] = operations.claim(worker, limit=9)
        assert job.id == last
        farm.succeed(worker, job)
    operations.tend_lanes()
    assert not EndedStep.objects.exists()


def test_who_comes_after_a_job_at_the_moment_of_its_end_starts(worker: Worker) -> None:
    for _ in range(share(400, of=16)):
        first = operations.submit("work", {}).pk
        [job] = operations.claim(worker, limit=9)
        farm.at_once(partial(farm.succeed, worker, job), partial(operations.submit, "work", {}, after=[first]))
        [job] = operations.claim(worker, limit=9)
        farm.succeed(worker, job)


def test_who_comes_after_a_job_while_a_mutation_ends_it_is_not_forgotten(worker: Worker) -> None:
    """The mutation sees what was there when it began."""
    operations.submit_many([farm.new_job(name="first"), farm.new_job(after=["first"])])
    farm.succeed(worker, farm.claim_one(worker))
    job, later = Job.objects.living().get().pk, list[Job]()

    def mutation() -> None:
        assert Job.objects.living().count() == 1
        if not later:
            later.extend(farm.at_once(partial(operations.submit, "work", {}, after=[job])))
        operations.cancel(job, by=None)

    transactions.serializable(mutation)
    assert farm.status(later[0]) == "canceled"


def test_an_end_waits_for_no_other_end(worker: Worker) -> None:
    *_, last = operations.submit_many([
        farm.new_job(name="a"), farm.new_job(name="b"), farm.new_job(after=["a", "b"]),
    ])  # fmt: skip
    one, other = operations.claim(worker, limit=9)
    ended, seen = threading.Event(), threading.Event()

    def stays_open() -> None:
        with connections.released(), transaction.atomic():
            farm.succeed(worker, one)
            ended.set()
            assert seen.wait(30)

    def goes_on() -> None:
        with connections.released():
            assert ended.wait(30)
            assert farm.succeed(worker, other) == "success"
            assert operations.claim(worker) == []
            seen.set()

    farm.at_once(stays_open, goes_on)
    assert farm.claim_one(worker).id == last


def _flow(rng: random.Random) -> list[operations.NewJob]:
    """Forty steps, each after up to three of those before it."""
    names = [f"{n}" for n in range(40)]
    new = []
    for n, name in enumerate(names):
        after = rng.sample(names[:n], min(n, rng.randrange(4)))
        when: dict[str, Any] = {"after": after, "when": rng.choice(["ended", "success", "success"])} if after else {}
        new.append(farm.new_job(name=name, max_attempts=2, **when))
    return new


def _work(worker: Worker, faults: list[str], rng: random.Random) -> None:
    while Live.objects.exists():
        for job in operations.claim(worker, limit=rng.choice([1, 2, 8])):
            given = {one.id for one in job.after or ()}
            wanted = set(Edge.objects.filter(job_id=job.id).values_list("after_id", flat=True))
            ended = set(Outcome.objects.filter(pk__in=wanted).values_list("pk", flat=True))
            if not given == wanted == ended:
                faults.append(f"job {job.id} began with {given} of {wanted}, of which {ended} had ended")
            match rng.randrange(12):
                case 0:
                    farm.fail(worker, job)
                case 1:
                    operations.release(worker, job.id, job.lease)
                case 2:
                    operations.cancel(job.id, by=None)
                case _:
                    farm.succeed(worker, job)


def test_of_many_flows_every_step_runs_once_after_all_before_it(worker: Worker) -> None:
    rng, faults = random.Random(11), list[str]()
    for _ in range(share(60, of=10)):
        operations.submit_many(_flow(rng))
    farm.at_once(*[partial(_work, worker, faults, random.Random(number)) for number in range(WORKERS)])
    assert faults == []
    operations.tend_lanes()
    assert not EndedStep.objects.exists()
    outcomes = Outcome.objects.in_bulk()
    for edge in Edge.objects.filter(condition="success"):
        later, before = outcomes[edge.job_id], outcomes[edge.after_id]
        assert before.status == "success" or (later.status, later.fence) == ("canceled", 0)
    assert not Edge.objects.filter(open_of__isnull=False).exists()


def test_a_fan_of_many_is_let_go_by_the_last_end_and_reads_little_for_each(worker: Worker) -> None:
    many = share(3000, of=10)
    ids = operations.submit_many([farm.new_job() for _ in range(many)])
    last = operations.submit("work", {}, after=[one for one in ids if isinstance(one, int)]).pk
    while len(jobs := operations.claim(worker, limit=100)) > 0:
        assert [one.id for one in jobs] == [last] or last not in {one.id for one in jobs}
        operations.finish(
            worker, [operations.Finished(job_id=one.id, lease=one.lease, outcome="success", result=1) for one in jobs]
        )
    assert Job.objects.ended().count() == many + 1
