"""Whose turn is next in a fair queue."""

import random
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from itertools import groupby
from statistics import fmean

import pytest
from django.contrib.auth.models import Group, User
from django.db.models.functions import Now

from jobs import operations
from jobs.models import Charge, Job, Lane, Live, Mark, Served, Weight, Worker
from jobs.operations import janitor
from tests import farm

pytestmark = pytest.mark.django_db
RUNS = 60


@pytest.fixture
def worker() -> Worker:
    farm.kind()
    operations.set_fair("work", "owner")
    return farm.worker()


def people(*names: str) -> list[User]:
    return [farm.user(name) for name in names]


def owners(claimed: list[operations.ClaimedJob]) -> list[str]:
    found = dict(Job.objects.filter(pk__in=[one.id for one in claimed]).values_list("pk", "owner__username"))
    return [found[one.id] for one in claimed]


def one_by_one(worker: Worker, count: int) -> Iterator[operations.ClaimedJob]:
    for _ in range(count):
        yield from operations.claim(worker)


def test_each_of_nine_who_come_with_one_job_gets_the_next_of_eight_slots_behind_a_hundred_of_anothers(
    worker: Worker,
) -> None:
    ada, *others = people("ada", *(f"other{number}" for number in range(9)))
    farm.submit(100, owner=ada)
    held = operations.claim(worker, limit=8)
    for other in others:
        farm.submit(1, owner=other)
    for other in others:
        farm.succeed(worker, held.pop(0))
        held += operations.claim(worker)
        assert owners(held[-1:]) == [other.username]
    assert owners([farm.claim_one(worker)]) == ["ada"]


def test_one_slot_goes_round(worker: Worker) -> None:
    ada, bo, cy = people("ada", "bo", "cy")
    farm.submit(9, owner=ada)
    farm.submit(5, owner=bo)
    farm.submit(2, owner=cy)
    order = []
    for claimed in one_by_one(worker, 16):
        order += owners([claimed])
        Live.objects.filter(pk=claimed.id).update(claimed_at=Now() - timedelta(seconds=10))
        farm.succeed(worker, claimed)
    assert [set(order[n : n + 3]) for n in (0, 3)] == [{"ada", "bo", "cy"}] * 2
    assert [set(order[n : n + 2]) for n in (6, 8, 10)] == [{"ada", "bo"}] * 3
    assert order[12:] == ["ada"] * 4


def test_one_slot_is_shared_by_time_and_weight_and_not_by_turns(worker: Worker) -> None:
    """Ada's jobs run for ten times as long, and cy has the weight of three."""
    lengths = {"ada": 100, "bo": 10, "cy": 10}
    for person in people(*lengths):
        farm.submit(80, owner=person)
    Weight.objects.create(owner=User.objects.get(username="cy"), weight=3)
    busy: Counter[str] = Counter()
    for claimed in one_by_one(worker, 100):
        [whose] = owners([claimed])
        busy[whose] += lengths[whose]
        Live.objects.filter(pk=claimed.id).update(claimed_at=Now() - timedelta(seconds=lengths[whose]))
        farm.succeed(worker, claimed)
    assert abs(busy["ada"] - busy["bo"]) <= 110
    assert abs(busy["cy"] - 3 * busy["bo"]) <= 60


def test_who_was_away_has_no_claim_on_the_time_of_the_others(worker: Worker) -> None:
    ada, bo = people("ada", "bo")
    farm.submit(20, owner=ada)
    for claimed in one_by_one(worker, 5):
        Live.objects.filter(pk=claimed.id).update(claimed_at=Now() - timedelta(hours=1))
        farm.succeed(worker, claimed)
    farm.claim_one(worker)
    farm.submit(20, owner=bo)
    assert Counter(owners(operations.claim(worker, limit=9))) == {"ada": 4, "bo": 5}


def test_a_claim_of_many_takes_from_all(worker: Worker) -> None:
    for person, count in zip(people("ada", "bo", "cy"), (20, 20, 2), strict=True):
        farm.submit(count, owner=person)
    taken = operations.claim(worker, limit=12)
    assert Counter(owners(taken)) == {"ada": 5, "bo": 5, "cy": 2}
    assert len({one.id for one in taken}) == 12


def test_weights_say_how_large_a_share_is(worker: Worker) -> None:
    ada, bo = people("ada", "bo")
    Weight.objects.create(owner=ada, weight=3)
    for person in (ada, bo):
        farm.submit(20, owner=person)
    assert Counter(owners(operations.claim(worker, limit=12))) == {"ada": 9, "bo": 3}


def test_what_runs_counts_however_it_came_to_run(worker: Worker) -> None:
    """Claimed before the queue was fair, by a member's own worker, or with a failure between."""
    ada, bo = people("ada", "bo")
    operations.set_fair("work", "off")
    farm.submit(9, owner=ada)
    operations.claim(worker, limit=2)
    operations.set_fair("work", "owner")
    operations.claim(farm.worker("own", owner=ada), limit=1)
    janitor.tend_lanes()
    farm.submit(9, owner=bo)
    assert owners(list(one_by_one(worker, 3))) == ["bo"] * 3
    assert set(owners(list(one_by_one(worker, 2)))) == {"ada", "bo"}


def test_a_failure_gives_the_share_back(worker: Worker) -> None:
    ada, bo = people("ada", "bo")
    farm.submit(3, owner=ada, max_attempts=1)
    farm.submit(3, owner=bo)
    first, second = operations.claim(worker, limit=2)
    assert owners([first, second]) == ["ada", "bo"]
    farm.fail(worker, first)
    assert owners([farm.claim_one(worker)]) == ["ada"]


def test_priority_comes_before_shares(worker: Worker) -> None:
    ada, bo = people("ada", "bo")
    farm.submit(3, owner=ada, priority=5)
    farm.submit(3, owner=bo)
    assert owners(list(one_by_one(worker, 4))) == ["ada", "ada", "ada", "bo"]


def test_shares_of_groups_are_told_apart_by_group_and_where_there_is_none_by_owner(worker: Worker) -> None:
    operations.set_fair("work", "group")
    club = Group.objects.create(name="club")
    ada, bo, cy = farm.user("ada", groups=[club]), farm.user("bo", groups=[club]), farm.user("cy")
    farm.submit(5, owner=ada, group=club)
    farm.submit(5, owner=bo, group=club)
    farm.submit(5, owner=cy)
    assert Counter(owners(operations.claim(worker, limit=6)))["cy"] == 3


def test_jobs_of_nobody_are_a_share_too(worker: Worker) -> None:
    [ada] = people("ada")
    farm.submit(9, owner=ada)
    farm.submit(9)
    assert Counter(owners(operations.claim(worker, limit=6))) == {"ada": 3, None: 3}


def test_within_a_share_the_order_is_that_of_time(worker: Worker) -> None:
    for person in people("ada", "bo"):
        farm.submit(5, owner=person)
    taken = operations.claim(worker, limit=10)
    for name in ("ada", "bo"):
        mine = [one.id for one, whose in zip(taken, owners(taken), strict=True) if whose == name]
        assert mine == sorted(mine)


def test_what_waits_when_a_queue_becomes_fair_is_sorted_by_the_janitor_and_found_before(worker: Worker) -> None:
    ada, bo = people("ada", "bo")
    operations.set_fair("work", "off")
    farm.submit(6, owner=ada)
    farm.submit(6, owner=bo)
    operations.set_fair("work", "owner")
    assert len(operations.claim(worker, limit=2)) == 2
    janitor.tend_lanes()
    assert not Lane.objects.filter(fair="off", share__lt=0).exists()
    assert Counter(owners(operations.claim(worker, limit=4)))["bo"] >= 2
    operations.set_fair("work", "group")
    janitor.tend_lanes()
    assert len(operations.claim(worker, limit=9)) == 6
    operations.set_fair("work", "off")
    farm.submit(2, owner=ada)
    assert len(operations.claim(worker, limit=9)) == 2


def test_a_share_that_the_worker_may_not_take_keeps_nobody_waiting(worker: Worker) -> None:
    ada, bo = people("ada", "bo")
    farm.submit(3, owner=ada, requires={"gpu": "yes"})
    farm.submit(3, owner=bo)
    assert owners(operations.claim(worker, limit=3)) == ["bo"] * 3


def test_a_ceiling_bounds_all_shares_together(worker: Worker) -> None:
    operations.set_ceiling("work", 3)
    for person in people("ada", "bo"):
        farm.submit(5, owner=person)
    taken = operations.claim(worker, limit=9)
    assert len(taken) == 3
    assert all(one.has_ceiling for one in taken)
    assert operations.claim(worker) == []
    operations.set_ceiling("work", None)
    more = operations.claim(worker, limit=9)
    assert len(more) == 7
    assert all(one.is_shared and not one.has_ceiling for one in more)


def usual_run() -> float:
    """How long a run takes, once the next claim has added up what ended before it."""
    usual = Served.objects.filter(share=0).values_list("seconds", flat=True).first()
    for _, each in groupby(Charge.objects.order_by("share", "pk"), key=lambda one: one.share):
        mean = fmean(one.seconds for one in each)
        usual = mean if usual is None else 0.9 * usual + 0.1 * mean
    return 1.0 if usual is None else usual


def seconds_of(tenants: dict[str, int], people: dict[str, User]) -> dict[str, float]:
    """What each of these, by name with their weights, was served so far and runs: what the next claim looks for."""
    seconds = {}
    for name, weight in tenants.items():
        share = -1 - people[name].pk
        noted = sum(Charge.objects.filter(share=share).values_list("seconds", flat=True))
        before = [*Mark.objects.filter(share=share).values_list("served", flat=True)]
        running = Job.objects.running().filter(owner=people[name]).count()
        # What ended since the last claim changes how long a run takes, too; what runs has just begun.
        seconds[name] = (min(before) if before else 0) + (noted + running * usual_run()) / weight
    return seconds


def test_each_claim_is_of_the_share_that_was_served_the_least_by_its_weight() -> None:
    """Random histories of submits, claims and ends, beside a model that adds up."""
    farm.kind()
    operations.set_fair("work", "owner")
    worker, rng = farm.worker(), random.Random(11)
    everybody = {person.username: person for person in people(*"abcdef")}
    tenants = {name: rng.choice([1, 1, 2, 3]) for name in everybody}
    for name, weight in tenants.items():
        Weight.objects.create(owner=everybody[name], weight=weight)
    held: list[operations.ClaimedJob] = []
    claims = 0
    for _ in range(RUNS):
        match rng.randrange(4):
            case 0:
                farm.submit(rng.randint(1, 6), owner=everybody[rng.choice(list(tenants))])
            case 1:
                for one in held[: rng.randint(0, len(held))]:
                    past = Now() - timedelta(seconds=rng.choice([0, 2, 30]))
                    Live.objects.filter(pk=one.id).update(claimed_at=past)
                    farm.succeed(worker, one)
                    held.remove(one)
            case _:
                seconds = seconds_of(tenants, everybody)
                waiting = set(Job.objects.waiting().values_list("owner__username", flat=True))
                for one in operations.claim(worker):
                    [whose] = owners([one])
                    assert seconds[whose] <= min(seconds[name] for name in waiting) + 0.05
                    held.append(one)
                    claims += 1
    assert claims > RUNS / 5


@pytest.mark.usefixtures("worker")
def test_what_members_workers_ran_is_added_up_by_retention_since_their_claims_look_at_no_shares() -> None:
    [ada] = people("ada")
    hers = farm.worker("hers", owner=ada)
    for job in farm.submit(3, owner=ada):
        farm.succeed(hers, farm.claim_one(hers))
        assert farm.status(job) == "success"
    noted = sum(Charge.objects.values_list("seconds", flat=True))
    assert Charge.objects.count() == 3
    farm.retain()
    assert not Charge.objects.exists()
    assert Served.objects.get(share=-1 - ada.pk).seconds == pytest.approx(noted)
