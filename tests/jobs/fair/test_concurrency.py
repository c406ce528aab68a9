"""Claims of a fair queue at the same moment: each sees what the others took, and nothing is left lying."""

import random
from collections import Counter
from functools import partial
from itertools import count

import pytest
from django.contrib.auth.models import User

from jobs import operations
from jobs.models import Job, Outcome, Worker
from postgres import connections
from tests import farm

pytestmark = pytest.mark.django_db(transaction=True)
AT_ONCE, SHARES, EACH = 6, 6, 40


@pytest.fixture
def workers() -> list[Worker]:
    farm.kind()
    operations.set_fair("work", "owner")
    return [farm.worker(f"w{number}") for number in range(AT_ONCE)]


@pytest.fixture
def people() -> list[User]:
    return [farm.user(f"person{number}") for number in range(SHARES)]


def whose(job_ids: list[int]) -> Counter[str]:
    return Counter(Job.objects.filter(pk__in=job_ids).values_list("owner__username", flat=True))


def test_slots_that_are_free_at_the_same_moment_go_to_a_share_each(workers: list[Worker], people: list[User]) -> None:
    for person in people:
        farm.submit(EACH, owner=person)
    taken = farm.at_once(*(connections.released()(partial(operations.claim, worker)) for worker in workers))
    assert whose([one.id for claimed in taken for one in claimed]) == {person.username: 1 for person in people}


def _work(worker: Worker, left: set[int]) -> int:
    """Claim and finish until all is done; how often there was nothing although something waited."""
    rng, empty = random.Random(worker.pk), 0
    while Job.objects.living().exists():
        claimed = operations.claim(worker, limit=rng.choice([1, 2, 5]))
        empty += not claimed
        for one in claimed:
            farm.succeed(worker, one)
            left.discard(one.id)
    return empty


def _submit(person: User) -> int:
    for number in count():
        farm.submit(1, owner=person)
        if number == EACH:
            return number
    return 0


def test_nothing_is_lost_or_done_twice_while_all_submit_and_claim(workers: list[Worker], people: list[User]) -> None:
    left: set[int] = set()
    submits = [connections.released()(partial(_submit, person)) for person in people[:3]]
    works = [connections.released()(partial(_work, worker, left)) for worker in workers[:3]]
    farm.submit(EACH, owner=people[4])
    farm.at_once(*submits, *works)
    operations.claim(workers[0], limit=1000)  # what came after the workers had gone home
    assert not Job.objects.waiting().exists()
    ended = Outcome.objects.filter(status="success")
    assert ended.count() + Job.objects.running().count() == 3 * (EACH + 1) + EACH
    assert all(job.fence == 1 for job in Job.objects.whole())


def test_a_queue_becomes_fair_and_plain_again_while_it_is_worked_on(workers: list[Worker], people: list[User]) -> None:
    """Whatever claims saw of the setting: what runs is counted once it is fair, and nothing stays behind."""
    for person in people:
        farm.submit(EACH, owner=person)

    def turn() -> int:
        for number in range(8):
            operations.set_fair("work", ("off", "owner", "group")[number % 3])
            operations.tend_lanes()
        operations.set_fair("work", "owner")
        running = Job.objects.running()
        assert not running.exclude(live__counted_in="work").exists()
        return 0

    left: set[int] = set()
    farm.at_once(connections.released()(turn), *(connections.released()(partial(_work, w, left)) for w in workers[:3]))
    assert Outcome.objects.filter(status="success").count() == SHARES * EACH
