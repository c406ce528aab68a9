"""What a claim of a fair queue reads does not grow with how many wait for their share."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction

from jobs import operations
from jobs.models import Mark, Worker
from jobs.queries import moves
from tests import farm, rows
from tests.explained import explain
from tests.rows import Sql

pytestmark = pytest.mark.django_db(transaction=True)
MANY = 1000
TENANTS = 300


@pytest.fixture
def worker() -> Worker:
    farm.kind()
    operations.set_fair("work", "owner")
    return farm.worker()


def pages(worker: Worker, limit: int) -> int:
    """The least of three: a session reads up what it has not seen."""
    return min(_pages(worker, limit) for _ in range(3))


def _pages(worker: Worker, limit: int) -> int:
    statement, params = moves.claim_call(worker, queues=["work"], limit=limit)
    with transaction.atomic():
        plan: dict[str, Any] = explain(statement, dict(params))["Plan"]
        transaction.set_rollback(True)
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def fill(tenants: int, each: int) -> None:
    rows.fill(tenants * each, owner_id=Sql(f"100000 + mod(n, {tenants})"))
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE) jobs_mark, jobs_lane, jobs_live, jobs_job")


def test_with_a_thousand_tenants_it_reads_little_more_than_with_one(worker: Worker) -> None:
    """For each share the marks are read by index, by a claim of one job and of twenty."""
    fill(1, 40)
    few = {limit: pages(worker, limit) for limit in (1, 20)}
    fill(MANY, 40)
    assert Mark.objects.count() >= MANY
    many = {limit: pages(worker, limit) for limit in few}
    assert [limit for limit in few if many[limit] > 2 * few[limit]] == [], (few, many)


def test_with_a_thousand_that_run_something_it_reads_them_and_few_that_wait(worker: Worker) -> None:
    rows.fill(MANY, status="in_progress", owner_id=Sql("100000 + n"), worker_id=worker.pk, fence=1,
              claimed_at=Sql("now()"))  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute("UPDATE jobs_live SET counted_in = 'work'")
    fill(MANY, 4)
    assert pages(worker, 1) < 8 * MANY


@pytest.mark.parametrize("why", ["a label", "a key"])
def test_what_a_worker_may_not_take_of_many_tenants_is_passed_over_as_it_is_read(worker: Worker, why: str) -> None:
    """However many wait for a machine that it is not, or for a key that is full, it takes what it may at once."""
    farm.kind("bound", queue="work", concurrency=1, concurrency_key="one")
    people = User.objects.bulk_create([User(username=f"tenant-{n}") for n in range(TENANTS + 1)])
    options: dict[str, Any] = {"requires": {"gpu": "yes"}} if why == "a label" else {"kind": "bound"}
    operations.submit_many([farm.new_job(owner=person, **options) for person in people[1:]])
    if why == "a key":
        farm.claim_one(worker)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE) jobs_mark, jobs_lane, jobs_live, jobs_job, jobs_concurrencykey")
    assert pages(worker, 1) < TENANTS
    mine = operations.submit("work", {}, owner=people[0]).pk
    assert farm.claim_one(worker).id == mine


def test_a_claim_of_a_plain_queue_runs_nothing_of_it_whoever_shares_another(worker: Worker) -> None:
    farm.kind("plain")
    rows.fill(40, queue="plain")
    before = _plan(worker, "plain")
    fill(MANY, 4)
    after = _plan(farm.worker("w2", "plain", "work"), "plain")
    for plan in (before, after):
        assert {node["Actual Loops"] for node in _nodes(plan) if "jobs_pick_of_fair" in node.values()} == {0}
    pages = [plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] for plan in (before, after)]
    assert pages[1] <= 1.2 * pages[0]


def _plan(worker: Worker, queue: str) -> dict[str, Any]:
    statement, params = moves.claim_call(worker, queues=[queue], limit=1)
    for _ in range(2):  # a session reads up what it has not seen
        with transaction.atomic():
            plan: dict[str, Any] = explain(statement, dict(params))["Plan"]
            transaction.set_rollback(True)
    return plan


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", []):
        yield from _nodes(part)
