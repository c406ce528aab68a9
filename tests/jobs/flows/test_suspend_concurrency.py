"""Suspends while the children end, and while somebody cancels: nobody waits for ever, and nobody goes on too early."""

from functools import partial
from typing import Any

import pytest

from jobs import operations
from jobs.errors import LeaseLost
from jobs.models import Edge, EndedStep, Job, Worker
from postgres import transactions
from tests import farm
from tests.effort import share
from tests.jobs.flows.test_children import child_of, parent_of, suspend

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def worker() -> Worker:
    farm.kind()
    return farm.worker()


def test_a_suspend_at_the_moment_of_the_ends_of_its_children_goes_on_once(worker: Worker) -> None:
    """No sweep helps."""
    for _ in range(share(250, of=50)):
        parent = parent_of(worker)
        children = [child_of(worker, parent, n) for n in range(2)]
        jobs = operations.claim(worker, limit=9)
        ends: list[Any] = [partial(farm.succeed, worker, job) for job in jobs]
        farm.at_once(partial(suspend, worker, parent, *children), *ends)
        [again] = operations.claim(worker, limit=9)
        assert (again.id, [one.id for one in again.after or ()]) == (parent.id, children)
        farm.succeed(worker, again)
    operations.tend_lanes()
    assert not EndedStep.objects.exists()
    assert not Edge.objects.filter(open_of__isnull=False).exists()


def test_a_suspend_against_a_cancel_leaves_nothing_that_lives(worker: Worker) -> None:
    for _ in range(share(200, of=20)):
        parent = parent_of(worker)
        children = [child_of(worker, parent, n) for n in range(2)]
        [answer, canceled] = farm.at_once(
            partial(suspend, worker, parent, *children), partial(operations.cancel, parent.id, by=None)
        )
        assert isinstance(answer, LeaseLost) == (canceled.verdict == "canceled_while_running")
        assert farm.statuses([parent.id, *children]) == ["canceled"] * 3
    assert not Job.objects.living().exists()


def test_an_end_whose_transaction_is_older_than_an_edge_lets_go_what_came_after_it(worker: Worker) -> None:
    """A mutation that cancels: by what it reads nobody comes after the job."""
    first = operations.submit("work", {})
    for when, status in (("success", "canceled"), ("ended", "pending")):
        second = operations.submit("work", {}, after=[first.pk], when="ended")
        later = list[int]()

        def attempt(when: str = when, job_id: int = second.pk, later: list[int] = later) -> None:
            assert not Edge.objects.filter(after_id=job_id).exists()
            if not later:
                later += farm.at_once(lambda: operations.submit("work", {}, after=[job_id], when=when).pk)
            operations.cancel(job_id, by=None)

        transactions.serializable(attempt)
        assert farm.status(later[0]) == status
        assert operations.broken_jobs(most=9) == []
        assert not Edge.objects.filter(open_of__in=later).exists()


def test_a_child_is_submitted_once_or_canceled_with_its_parent(worker: Worker) -> None:
    for _ in range(share(400, of=60)):
        parent = parent_of(worker)

        def submitted(parent: operations.ClaimedJob = parent) -> int | None:
            try:
                return child_of(worker, parent, 0)
            except LeaseLost:
                return None

        first, second, _canceled = farm.at_once(submitted, submitted, partial(operations.cancel, parent.id, by=None))
        assert first == second or None in {first, second}
        assert not Job.objects.living().exists()


def test_a_wait_for_a_signal_is_not_over_since_an_end_of_before_is_looked_at(worker: Worker) -> None:
    """The first of two ends leaves a note, which the janitor takes when it comes by."""
    before = [operations.submit("work", {}).pk for _ in range(2)]
    operations.submit("work", {}, after=before)
    for one in operations.claim(worker, limit=2):
        farm.succeed(worker, one)
    job = farm.claim_one(worker)
    assert EndedStep.objects.exists()
    wait = operations.Wait(signal="approved")
    operations.finish(worker, [operations.Finished(job_id=job.id, lease=job.lease, outcome="suspended", wait=wait)])
    operations.tend_lanes()
    assert not EndedStep.objects.exists()
    assert operations.claim(worker) == []
    operations.signal(job.id, "approved", 7, by=None)
    assert farm.claim_one(worker).id == job.id
