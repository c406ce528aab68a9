"""What `why` says of a job in a fair queue, and what its page shows of the shares."""

import random
import re
from datetime import timedelta

import pytest
from django.db.models.functions import Now
from django.test import Client

from jobs import operations
from jobs.domain.reasons import Reason
from jobs.models import Job, Live, Served, Weight
from jobs.queries import fleet, reads
from tests import farm

pytestmark = pytest.mark.django_db
CASES = 40


def why(job: Job | int) -> Reason:
    [reason] = reads.why_not_running(job if isinstance(job, int) else job.pk)
    return reason


@pytest.mark.parametrize("priorities", [(0,), (-1, 0, 0, 1)])
def test_it_counts_what_is_taken_before_it_whatever_the_shares_run_and_weigh(priorities: tuple[int, ...]) -> None:
    """Claims one by one, in which nothing ends: after so many it is this job's turn. A run of the queue takes a minute,
    more than the test does: how long this machine needs for a claim counts for nobody."""
    farm.kind()
    operations.set_fair("work", "owner")
    worker, rng = farm.worker(), random.Random(10)
    people = [farm.user(name) for name in ("ada", "bo", "cy", "di")]
    for person in people[:3]:
        Weight.objects.create(owner=person, weight=rng.choice([1, 2, 3]))
    for _ in range(CASES):
        for _ in range(rng.randint(1, 6)):
            farm.submit(rng.randint(1, 4), owner=rng.choice(people), priority=rng.choice(priorities))
        operations.claim(worker, limit=rng.randint(1, 5))
        Served.objects.update_or_create(queue="work", share=0, defaults={"seconds": 60.0, "at": Now()})
        waiting = list(Job.objects.waiting().order_by("pk").values_list("pk", flat=True))
        if not waiting:
            continue
        chosen = rng.choice(waiting)
        expected = why(chosen).numbers.get("jobs", 0)
        before = []
        while chosen not in before:
            before.append(farm.claim_one(worker).id)
        assert abs(len(before) - 1 - expected) <= len(people)  # of those that have been served as much any may be first
        for pk in before[: rng.randint(0, len(before))]:
            Live.objects.filter(pk=pk).update(claimed_at=Now() - timedelta(seconds=rng.uniform(0, 120)))
            operations.cancel(pk, by=None)


@pytest.mark.parametrize("urgent", ["ada", "bo"])
def test_what_is_more_urgent_counts_as_served_to_its_share(urgent: str) -> None:
    farm.kind()
    operations.set_fair("work", "owner")
    worker, people = farm.worker(), {name: farm.user(name) for name in ("ada", "bo", "cy")}
    farm.submit(8, owner=people[urgent], priority=5)
    for person in people.values():
        farm.submit(5, owner=person)
    first = Job.objects.waiting().filter(owner=people["ada"], priority=0).earliest("pk")
    expected, before = why(first).numbers["jobs"], 0
    while farm.claim_one(worker).id != first.pk:
        before += 1
    assert abs(before - expected) <= 1, (before, expected)


def test_it_says_what_runs_of_its_share_and_who_comes_first() -> None:
    farm.kind()
    operations.set_fair("work", "owner")
    worker, ada, bo, cy = farm.worker(), *(farm.user(name) for name in ("ada", "bo", "cy"))
    farm.submit(6, owner=ada)
    operations.claim(worker, limit=3)
    farm.submit(9, owner=bo)
    farm.submit(9, owner=cy)
    last = Job.objects.waiting().filter(owner=ada).order_by("pk").last()
    assert last is not None
    reason = why(last)
    assert reason.code == "share"
    assert reason.sentence == (
        "The queue work is shared out by owner, and 3 of its share run now. About 12 jobs are taken before it: 2 of "
        "the same owner and those of 2 other shares that were served less."
    )
    assert reason.numbers == {"jobs": 12, "of_share": 3, "shares": 2}
    assert reason.to_operators == reason.sentence.replace("2 other shares that were", "bo and cy, who were")


def test_it_names_the_others_to_operators_alone(client: Client) -> None:
    farm.kind()
    operations.set_fair("work", "owner")
    ada, root = farm.user("ada"), farm.user("root", is_staff=True, is_superuser=True)
    farm.submit(2, owner=ada)
    farm.claim_one(farm.worker())
    for name in ("bo", "cy", "di", "eve", "flo"):
        farm.submit(1, owner=farm.user(name))
    [waiting] = Job.objects.waiting().filter(owner=ada)
    named = {}
    for user in (ada, root):
        client.force_login(user)
        page = client.get(f"/jobs/{waiting.pk}/").content.decode()
        api = client.get(f"/api/v1/jobs/{waiting.pk}/why").json()["reasons"][0]
        assert api["sentence"] in " ".join(page.split())
        assert (api["of_share"], api["shares"]) == (1, 5)
        named[user] = "bo, cy, di and 2 others, who were served less" in api["sentence"]
    assert named == {ada: False, root: True}


def test_the_next_of_a_fair_queue_is_next() -> None:
    farm.kind()
    operations.set_fair("work", "owner")
    farm.worker()
    ada, bo = farm.user("ada"), farm.user("bo")
    farm.submit(2, owner=ada)
    [job] = farm.submit(1, owner=bo)
    assert why(job).code == "share"
    operations.claim(farm.worker("w2"))
    assert why(job).code == "next"


def test_a_queue_shows_its_shares() -> None:
    farm.kind()
    assert fleet.shares("work") == []
    operations.set_fair("work", "owner")
    ada, bo = farm.user("ada"), farm.user("bo")
    Weight.objects.create(owner=bo, weight=2)
    farm.submit(4, owner=ada)
    farm.submit(1, owner=bo)
    farm.submit(1)
    operations.claim(farm.worker(), limit=2)
    rows = [(row.name, row.weight, row.running, row.waiting, row.others) for row in fleet.shares("work")]
    assert sorted(rows) == [("", 1, 0, 1, 0), ("ada", 1, 1, 3, 0), ("bo", 2, 1, 0, 0)]


def test_its_page_shows_them_to_operators_live_and_to_nobody_else(client: Client) -> None:
    farm.kind()
    operations.set_fair("work", "owner")
    ada, root = farm.user("ada"), farm.user("root", is_staff=True, is_superuser=True)
    farm.submit(3, owner=ada)
    farm.submit(2, owner=farm.user("bo"))
    pages = {}
    for user in (ada, root):
        client.force_login(user)
        pages[user] = client.get("/queues/work/").content.decode()
    assert 'data-live="queue-shares"' in pages[root]
    assert 'data-live="queue-shares"' not in pages[ada]
    assert "bo" in pages[root]
    assert not re.search(r">\s*bo\s*<", pages[ada])
