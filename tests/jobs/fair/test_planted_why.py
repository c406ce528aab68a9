"""Fifteen situations of many tenants, each planted: what `why` says first, and in which numbers."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group, User

from jobs import operations
from jobs.models import ConcurrencyKey, Job, Weight, Worker
from jobs.queries import reads
from tests import farm

pytestmark = pytest.mark.django_db


class Planted:
    """A fair queue, a worker that runs three of ada's jobs, and people beside her."""

    def __init__(self, fair: str = "owner", **kind: Any) -> None:
        farm.kind(**kind)
        operations.set_fair("work", fair)
        self.worker: Worker = farm.worker()
        self.people: dict[str, User] = {name: farm.user(name) for name in ("ada", "bo", "cy")}

    def submit(self, name: str, count: int = 1, **options: Any) -> Job:
        return farm.submit(count, owner=self.people[name], **options)[-1]

    def run(self, name: str, count: int) -> None:
        self.submit(name, count)
        assert len(operations.claim(self.worker, limit=count)) == count


def who_runs_the_most_comes_after_the_others() -> Job:
    here = Planted()
    here.run("ada", 3)
    here.submit("bo", 9)
    here.submit("cy", 9)
    return here.submit("ada")


def who_runs_nothing_is_next() -> Job:
    here = Planted()
    here.run("ada", 3)
    here.submit("ada", 5)
    return here.submit("bo")


def a_weight_of_three_comes_first_three_times() -> Job:
    here = Planted()
    Weight.objects.create(owner=here.people["bo"], weight=3)
    here.run("ada", 1)
    here.submit("bo", 9)
    return here.submit("ada")


def a_group_is_a_share_whoever_of_it_submits() -> Job:
    here = Planted("group")
    club = Group.objects.create(name="club")
    for name in ("ada", "bo"):
        here.people[name].groups.add(club)
    farm.submit(2, owner=here.people["ada"], group=club)
    operations.claim(here.worker, limit=2)
    here.submit("cy", 5)
    return farm.submit(1, owner=here.people["bo"], group=club)[0]


def a_key_is_a_share_of_a_queue_that_is_shared_by_key() -> Job:
    here = Planted("key", concurrency=9)
    here.submit("ada", 2, concurrency_key="a")
    operations.claim(here.worker, limit=2)
    here.submit("ada", 5, concurrency_key="b")
    return here.submit("ada", concurrency_key="a")


def what_is_more_urgent_comes_first_whoever_it_is_of() -> Job:
    here = Planted()
    here.run("ada", 1)
    here.submit("ada", 4, priority=5)
    return here.submit("bo")


def the_own_jobs_that_came_before() -> Job:
    here = Planted()
    here.run("ada", 1)
    return here.submit("ada", 5)


def the_key_of_a_kind_is_full() -> Job:
    here = Planted(concurrency=2, concurrency_key="{account}")
    here.submit("ada", 2, concurrency_key="a")
    operations.claim(here.worker, limit=2)
    return here.submit("bo", concurrency_key="a")


def the_key_of_a_queue_is_full() -> Job:
    here = Planted(concurrency_key="{account}")
    operations.bound_keys("work", 1)
    here.submit("ada", concurrency_key="a")
    operations.claim(here.worker)
    return here.submit("bo", concurrency_key="a")


def the_key_is_paused() -> Job:
    job = Planted(concurrency=2, concurrency_key="{account}").submit("ada", concurrency_key="a")
    operations.pause_key(ConcurrencyKey.objects.get(name="a").pk)
    return job


def the_owner_is_paused() -> Job:
    here = Planted()
    here.submit("bo", 2)
    operations.pause_owner(here.people["ada"])
    return here.submit("ada")


def the_ceiling_of_all_shares_is_full() -> Job:
    here = Planted()
    operations.set_ceiling("work", 2)
    here.run("ada", 2)
    return here.submit("bo")


def the_queue_is_paused() -> Job:
    here = Planted()
    operations.pause("work")
    return here.submit("bo")


def an_old_one_counts_for_more_and_says_so() -> Job:
    here = Planted()
    operations.set_ages_after("work", 60)
    here.run("ada", 1)
    job = here.submit("ada")
    here.submit("bo", 2, priority=1)
    farm.pass_time(job, 100)
    operations.tend_lanes()
    return job


def one_starts_after_another_with_its_key_that_runs() -> Job:
    here = Planted()
    options: dict[str, Any] = {"owner": here.people["ada"], "unique_key": "k", "on_conflict": "after"}
    operations.submit("work", {}, **options)
    operations.claim(here.worker)
    return farm.stored(operations.submit("work", {}, **options))


CASES: list[tuple[Callable[[], Job], str, dict[str, Any]]] = [
    (who_runs_the_most_comes_after_the_others, "share", {"jobs": 6, "of_share": 3, "shares": 2}),
    (who_runs_nothing_is_next, "next", {}),
    (a_weight_of_three_comes_first_three_times, "share", {"jobs": 3, "of_share": 1, "shares": 1}),
    (a_group_is_a_share_whoever_of_it_submits, "share", {"jobs": 2, "of_share": 2, "shares": 1}),
    (a_key_is_a_share_of_a_queue_that_is_shared_by_key, "share", {"jobs": 2, "of_share": 2, "shares": 1}),
    (what_is_more_urgent_comes_first_whoever_it_is_of, "share", {"jobs": 4, "of_share": 0}),
    (the_own_jobs_that_came_before, "share", {"jobs": 4, "of_share": 1, "shares": 0}),
    (the_key_of_a_kind_is_full, "key_full", {}),
    (the_key_of_a_queue_is_full, "key_full", {}),
    (the_key_is_paused, "key_paused", {"key": "a"}),
    (the_owner_is_paused, "owner_paused", {"owner": "ada"}),
    (the_ceiling_of_all_shares_is_full, "queue_full", {"ceiling": 2}),
    (the_queue_is_paused, "queue_paused", {}),
    (an_old_one_counts_for_more_and_says_so, "share", {"of_share": 1}),
    (one_starts_after_another_with_its_key_that_runs, "waits_behind", {}),
]


@pytest.mark.parametrize(("plant", "code", "numbers"), CASES, ids=[plant.__name__ for plant, _, _ in CASES])
def test_why_says_what_was_planted(plant: Callable[[], Job], code: str, numbers: dict[str, Any]) -> None:
    job = plant()
    reasons = reads.why_not_running(job.pk)
    first = reasons[0]
    assert (first.code, {name: first.numbers[name] for name in numbers}) == (code, numbers), reasons
    assert ("aged" in [reason.code for reason in reasons]) is (plant is an_old_one_counts_for_more_and_says_so)
    if code == "share":  # and so it is: claims one by one, in which nothing ends
        before = []
        while job.pk not in before:
            before.append(farm.claim_one(Worker.objects.get(name="w1")).id)
        assert abs(len(before) - 1 - first.numbers["jobs"]) <= 2, "of those alike either may be first"
