"""Jobs that have waited for long count for more, where their queue says so."""

import pytest

from jobs import operations
from jobs.errors import InvalidValue, UnknownQueue
from jobs.models import Job, Lane, Live, Queue, Worker
from jobs.queries import lanes, reads
from tests import farm

pytestmark = pytest.mark.django_db


@pytest.fixture
def worker() -> Worker:
    farm.kind()
    operations.set_ages_after("work", 600)
    urgent()
    return farm.worker()


def urgent() -> None:
    """Something more urgent waits than all others, for which no worker is there."""
    farm.submit(1, priority=100, requires={"gpu": "yes"})


def waited(job: Job, seconds: float) -> Job:
    """The job after it has waited for so long, and the janitor has come by."""
    farm.pass_time(job, seconds)
    operations.tend_lanes()
    return job


def levels(*jobs: Job) -> list[int]:
    """The priorities that these waiting jobs count as."""
    return [Live.objects.get(job=job).lane.priority for job in jobs]


def test_a_job_counts_one_higher_each_time_it_has_waited_so_long(worker: Worker) -> None:
    [job] = farm.submit(1)
    counted = []
    for seconds in (0, 599, 2, 598, 2, 6000):
        waited(job, seconds)
        counted += levels(job)
    assert counted == [0, 0, 1, 1, 2, 12]
    assert farm.stored(job).priority == 0


def test_an_old_job_overtakes_younger_ones_of_a_higher_priority(worker: Worker) -> None:
    [old] = farm.submit(1)
    farm.submit(5, priority=2)
    waited(old, 1201)
    assert farm.claim_one(worker).id == old.pk


def test_nothing_rises_above_what_is_the_most_urgent_so_fair_shares_stay_as_they_are() -> None:
    farm.kind()
    operations.set_ages_after("work", 600)
    operations.set_fair("work", "owner")
    ada, bo, worker = farm.user("ada"), farm.user("bo"), farm.worker()
    old = farm.submit(4, owner=ada)
    farm.claim_one(worker)
    for job in old[1:]:
        waited(job, 6000)
    [new] = farm.submit(1, owner=bo)
    assert levels(*old[1:], new) == [0, 0, 0, 0]
    assert farm.claim_one(worker).id == new.pk


def test_no_job_counts_for_more_than_the_highest_priority_where_the_oldest_is_first(worker: Worker) -> None:
    [old], [young] = farm.submit(1, priority=-100), farm.submit(1, priority=100)
    waited(old, 600 * 500)
    assert levels(old, young) == [100, 100]
    assert [one.id for one in operations.claim(worker, limit=2)] == [old.pk, young.pk]


def test_a_queue_without_it_is_left_alone(worker: Worker) -> None:
    operations.set_ages_after("work", None)
    [job] = farm.submit(1)
    waited(job, 1e6)
    assert levels(job) == [0]
    assert set(Lane.objects.values_list("raised", flat=True)) == {0}


def test_what_is_due_later_does_not_age_and_what_was_due_before_its_submit_ages_from_that(worker: Worker) -> None:
    [later] = farm.submit(1, run_at=farm.now().replace(year=2099))
    [early] = farm.submit(1, run_at=farm.now().replace(year=2020))
    operations.tend_lanes()
    assert levels(later, early) == [0, 0]
    waited(early, 601)
    assert levels(later, early) == [0, 1]


def test_a_job_that_failed_begins_anew_when_it_is_due_and_one_that_was_released_keeps_its_age(worker: Worker) -> None:
    [job] = farm.submit(1)
    waited(job, 1201)
    claimed = farm.claim_one(worker)
    operations.release(worker, claimed.id, claimed.lease)
    operations.tend_lanes()
    assert levels(job) == [2]
    farm.fail(worker, farm.claim_one(worker))
    farm.make_due(job)
    operations.tend_lanes()
    assert levels(job) == [0]


def test_a_job_that_a_person_gives_another_priority_ages_from_that(worker: Worker) -> None:
    [job] = farm.submit(1)
    waited(job, 601)
    operations.change_priority(job.pk, 10, by=None)
    operations.tend_lanes()
    assert levels(job) == [11]


@pytest.mark.parametrize("fair", ["off", "owner", "key"])
def test_it_works_with_fair_share_keys_members_workers_and_a_pause(fair: str) -> None:
    farm.kind(concurrency=1, concurrency_key="{n}")
    operations.set_ages_after("work", 600)
    operations.set_fair("work", fair)
    urgent()
    ada = farm.user("ada")
    mine = farm.worker("mine", owner=ada)
    [old] = farm.submit(1, owner=ada)
    [young] = farm.submit(1, owner=ada, priority=3)
    operations.pause_owner(ada)
    waited(old, 601)
    operations.resume_owner(ada)
    waited(old, 1801)
    assert levels(old, young) == [4, 3]
    assert farm.claim_one(mine).id == old.pk
    assert operations.broken_jobs(most=10) == []


def test_one_round_moves_a_bounded_number_and_the_next_goes_on(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.operations.janitor.AGED_TURNS", 1)
    monkeypatch.setattr("jobs.operations.set_aside.BATCH", 2)
    jobs = farm.submit(5)
    for job in jobs:
        farm.pass_time(job, 601)
    counted = []
    for _ in range(4):
        operations.tend_lanes()
        counted.append(sum(levels(*jobs)))
    assert counted[0] < 5
    assert counted[-1] == 5


def test_why_says_what_it_counts_as(worker: Worker) -> None:
    [job] = farm.submit(1)
    farm.submit(2, priority=1)
    farm.submit(2, priority=5)
    waited(job, 601)
    reasons = {reason.code: reason for reason in reads.why_not_running(job.pk)}
    assert reasons["aged"].sentence == "It has waited for so long that it counts as priority 1 by now."
    assert reasons["aged"].numbers == {"counts_as": 1}
    assert reasons["ahead"].numbers["jobs"] == 2


def test_what_makes_no_sense_is_refused(worker: Worker) -> None:
    for seconds in (0, -1, 40 * 86400):
        with pytest.raises(InvalidValue):
            operations.set_ages_after("work", seconds)
    with pytest.raises(UnknownQueue):
        operations.set_ages_after("nowhere", 60)
    assert Queue.objects.get(pk="work").ages_after == 600


def test_lanes_of_risen_jobs_are_deleted_once_they_are_empty(worker: Worker) -> None:
    [job] = farm.submit(1)
    waited(job, 601)
    assert Live.objects.get(job=job).lane.raised == 1
    farm.claim_one(worker)
    operations.tend_lanes()
    Lane.objects.update(created_at="2026-01-01T00:00:00Z")
    assert lanes.delete(10, 0) == 1
