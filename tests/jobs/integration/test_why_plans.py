"""What `why` reads on a farm where 100,000 jobs wait and 500 workers live. The plan is the generic one."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.db.models.functions import Now
from pytest_django import Settings

from jobs import operations
from jobs.models import Job, Worker
from jobs.queries import moves, reads
from postgres import statements
from tests import farm, rows
from tests.explained import explain
from tests.rows import Sql

pytestmark = [pytest.mark.usefixtures("no_dead_rows"), pytest.mark.django_db]
WAITING, WORKERS = 100_000, 500
PAGES = 150  # beside the rows of the workers. Measured: 30 to 90.
COUNTED_PAGES = 1300  # when it counts a thousand that are ahead, a page of the table for each at worst


@pytest.fixture(autouse=True)
def _grace(settings: Settings) -> None:
    """Who is to leave jobs to others is to during the test."""
    settings.JOBFARM = {**settings.JOBFARM, "EXCLUSION_S": 10_800.0}


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    """One of its own for each test: what the others rolled back lies in the index until it is vacuumed."""
    name = request.node.name
    farm.kind(name)
    return str(name)


def _fill(queue: str, **fields: Any) -> None:
    due = Sql("now() - interval '2 hours' + n * interval '1 ms'")
    rows.fill(WAITING, kind=queue, queue=queue, run_at=due, **fields)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobs_job, jobs_live")


def _workers(queue: str) -> None:
    made = [
        Worker(name=f"w{n}", queues=[queue], key_hash=str(n), key_hint="", last_seen_at=Now()) for n in range(WORKERS)
    ]
    Worker.objects.bulk_create(made)


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)


def _pages(job: Job) -> int:
    grace_s = settings.JOBFARM["EXCLUSION_S"]
    given = {"job": job.pk, "limit": reads.AHEAD_LIMIT, "grace_s": grace_s, **moves.taking()}
    plan = explain(statements.load("jobs", "why_not_running"), given)["Plan"]
    scanned = {n["Relation Name"] for n in _nodes(plan) if n["Node Type"] == "Seq Scan"}
    assert not scanned & {"jobs_job", "jobs_live"}
    pages: int = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    print(f"pages: {pages}")
    return pages


def _says(job: Job) -> list[str]:
    return [reason.code for reason in reads.why_not_running(job.pk)]


class TestWhy:
    def test_reads_the_head_of_the_queue_for_its_first_job(self, queue: str) -> None:
        [first] = farm.submit(1, queue, priority=1)
        _fill(queue)
        _workers(queue)
        assert _says(first) == ["next"]
        assert _pages(first) <= PAGES + 4 * WORKERS  # whether each holds a job is asked until one holds none

    def test_counts_a_thousand_for_its_last_job(self, queue: str) -> None:
        _fill(queue)
        farm.worker("w1", queue)
        [last] = farm.submit(1, queue)
        assert _says(last) == ["ahead"]
        assert _pages(last) <= COUNTED_PAGES

    def test_does_not_read_what_its_worker_may_not_take(self, queue: str) -> None:
        ada, bob = farm.user("ada"), farm.user("bob")
        _fill(queue, owner_id=bob.pk)
        farm.worker("w1", queue, owner=ada)
        [last] = farm.submit(1, queue, owner=ada)
        assert _says(last) == ["next"]
        assert _pages(last) <= PAGES

    def test_does_not_read_what_its_worker_has_failed(self, queue: str) -> None:
        _fill(queue, avoid=[farm.worker("w1", queue).pk])
        [last] = farm.submit(1, queue, priority=-1)
        assert _says(last) == ["next"]
        assert _pages(last) <= PAGES

    def test_counts_once_for_all_workers_that_are_alike(self, queue: str) -> None:
        _fill(queue)
        _workers(queue)
        [last] = farm.submit(1, queue)
        assert _says(last) == ["ahead"]
        assert _pages(last) <= COUNTED_PAGES + 4 * WORKERS

    def test_reads_the_same_when_the_queue_is_full(self, queue: str) -> None:
        _fill(queue)
        farm.worker("w1", queue)
        operations.set_ceiling(queue, 0)
        [last] = farm.submit(1, queue)
        assert _says(last) == ["queue_full", "ahead"]
        assert _pages(last) <= COUNTED_PAGES
