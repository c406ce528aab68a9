"""Who was away from a fair queue, or waits for a later moment, has no claim on the time of the others."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models.functions import Now

from jobs import operations
from jobs.models import Job, Live, Worker
from tests import farm

pytestmark = pytest.mark.django_db


@pytest.fixture
def worker() -> Worker:
    farm.kind()
    operations.set_fair("work", "owner")
    return farm.worker()


def run(worker: Worker, count: int, *, seconds: float) -> None:
    """Run so many jobs, one after the other, for so long each."""
    for _ in range(count):
        claimed = farm.claim_one(worker)
        Live.objects.filter(pk=claimed.id).update(claimed_at=Now() - timedelta(seconds=seconds))
        farm.succeed(worker, claimed)


def owners(worker: Worker, count: int) -> Counter[str]:
    """Whose the next jobs are, each of which runs for ten seconds."""
    found: Counter[str] = Counter()
    for _ in range(count):
        claimed = farm.claim_one(worker)
        found[Job.objects.values_list("owner__username", flat=True).get(pk=claimed.id)] += 1
        Live.objects.filter(pk=claimed.id).update(claimed_at=Now() - timedelta(seconds=10))
        farm.succeed(worker, claimed)
    return found


def submit(name: str, **options: Any) -> None:
    farm.submit(20, owner=User.objects.filter(username=name).first() or farm.user(name), **options)


def come_due() -> None:
    """Let the moment of all that waits for tomorrow have come, as the clock does it: nothing is written on the way."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE jobs_live DISABLE TRIGGER USER")
        for table, column in (("jobs_live", "run_at"), ("jobs_mark", "at")):
            cursor.execute(f"UPDATE {table} SET {column} = {column} - interval '1 day' WHERE {column} > now()")
        cursor.execute("ALTER TABLE jobs_live ENABLE TRIGGER USER")


def test_who_ran_something_long_ago_shares_with_the_others_again(worker: Worker) -> None:
    bo = farm.user("bo")
    farm.submit(1, owner=bo)
    run(worker, 1, seconds=1)
    operations.tend_lanes()  # nothing of bo's waits any more
    submit("ada")
    run(worker, 5, seconds=3600)
    run(worker, 1, seconds=1)  # whose claim adds the others up
    submit("bo")
    assert owners(worker, 10) == {"ada": 5, "bo": 5}


def test_who_has_something_for_later_makes_nobody_the_next(worker: Worker) -> None:
    submit("cy", run_at=farm.now() + timedelta(days=1))
    submit("ada")
    run(worker, 5, seconds=3600)
    run(worker, 1, seconds=1)  # whose claim adds the others up
    submit("bo")
    assert owners(worker, 10) == {"ada": 5, "bo": 5}


def test_what_was_for_later_saves_nothing_up(worker: Worker) -> None:
    submit("bo", run_at=farm.now() + timedelta(days=1))
    submit("ada")
    run(worker, 5, seconds=3600)
    run(worker, 1, seconds=1)  # whose claim adds the others up
    operations.tend_lanes()
    come_due()
    assert owners(worker, 10) == {"ada": 5, "bo": 5}
