"""A worker steals only while it holds no job: also when it asks over several connections at one moment."""

import threading
from collections.abc import Callable
from functools import partial

import pytest
from django.db import transaction

from jobs import operations
from jobs.models import Job, Worker
from tests import farm

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def thief() -> Worker:
    """A worker that takes from every queue when it is idle; there are two jobs to steal."""
    farm.kind()
    farm.kind("home")
    farm.submit(2)
    return farm.worker("thief", "home", steals=["*"])


Claim = Callable[[], list[operations.ClaimedJob]]


def _during(first: Claim, second: Claim, *, rolled_back: bool = False) -> list[list[operations.ClaimedJob]]:
    """What two claims got, of which the second begins and ends while the first is not committed."""
    first_has_it, second_is_done = threading.Event(), threading.Event()

    def outer() -> list[operations.ClaimedJob]:
        mine: list[operations.ClaimedJob] = []
        with farm.rolled_back() if rolled_back else transaction.atomic():
            mine = first()
            first_has_it.set()
            assert second_is_done.wait(timeout=30), "the second claim waits for the first"
        return mine

    def inner() -> list[operations.ClaimedJob]:
        assert first_has_it.wait(timeout=30)
        try:
            return second()
        finally:
            second_is_done.set()

    return farm.at_once(outer, inner)


class TestTwoClaimsOfOneWorker:
    def test_at_one_moment_steal_one_job_and_neither_waits(self, thief: Worker) -> None:
        first, second = _during(partial(operations.claim, thief), partial(operations.claim, thief))
        assert (len(first), second) == (1, [])
        assert operations.claim(thief) == []
        assert Job.objects.running().count() == 1

    def test_steal_again_when_the_first_came_to_nothing(self, thief: Worker) -> None:
        claim = partial(operations.claim, thief)
        _, second = _during(claim, claim, rolled_back=True)
        assert second == []
        assert len(claim()) == 1

    def test_take_home_jobs_while_the_other_steals(self, thief: Worker) -> None:
        def at_home() -> list[operations.ClaimedJob]:
            farm.submit(1, "home")
            return operations.claim(thief)

        stolen, own = _during(partial(operations.claim, thief), at_home)
        assert ([job.queue for job in stolen], [job.queue for job in own]) == (["work"], ["home"])

    def test_are_no_hindrance_to_another_worker(self, thief: Worker) -> None:
        other = farm.worker("other", "home", steals=["work"])
        got = _during(partial(operations.claim, thief), partial(operations.claim, other))
        assert [len(mine) for mine in got] == [1, 1]

    def test_many_of_them_steal_one_job_each_time(self, thief: Worker) -> None:
        farm.submit(40)
        for _ in range(15):
            claims = farm.at_once(*[partial(operations.claim, thief)] * 6)
            assert sum(map(len, claims)) == 1
            [[stolen]] = [mine for mine in claims if mine]
            farm.succeed(thief, stolen)
