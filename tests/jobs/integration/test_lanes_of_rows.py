"""Rows that somebody edits: whatever is written, the job waits where claims look."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.db.models.functions import Now

from jobs import operations
from jobs.models import Job, Lane, Mark, Queue
from jobs.queries import lanes, reads
from tests import farm

pytestmark = pytest.mark.django_db


def test_a_stale_object_that_is_saved_whole_waits_where_claims_look() -> None:
    farm.kind()
    stale = Job.objects.get(pk=operations.submit("work", {}, priority=3).pk)
    operations.change_priority(stale.pk, 5, by=None)
    Mark.objects.exclude(lane_id=farm.stored(stale).lane_id or 0).delete()  # its old lane is asleep by now
    stale.priority = 7
    stale.save()
    assert reads.broken_jobs(most=9) == []
    assert farm.claim_one(farm.worker()).id == stale.pk


def test_a_bulk_in_the_hour_that_comes_twice_is_awake_from_its_first_job_on() -> None:
    farm.kind()
    zone = ZoneInfo("Europe/Berlin")
    first, later = (datetime(2025, 10, 26, 2, minute, tzinfo=zone, fold=fold) for minute, fold in ((30, 0), (10, 1)))
    assert later > first - timedelta(hours=1)  # by the wall clock it is the earlier one
    operations.submit_many(
        [operations.NewJob(kind="work", payload={}, run_at=run_at) for run_at in (first, later) * 40]
    )
    assert reads.broken_jobs(most=9) == []


def test_a_queue_whose_trigger_saw_no_worker_keeps_owners_apart_after_a_round_of_the_janitor() -> None:
    farm.kind()
    farm.worker("hers", owner=farm.user())
    Queue.objects.update(by_owner=False)
    operations.tend_lanes()
    assert Queue.objects.get(name="work").by_owner


def test_what_a_worker_was_given_and_did_not_begin_keeps_its_place_and_starts_no_grace() -> None:
    farm.kind()
    failed, other = farm.worker("failed"), farm.worker("other")
    [job] = farm.submit(1)
    farm.avoid([job], failed, ago_s=20)
    before = farm.stored(job).run_at
    claimed = farm.claim_one(other)
    operations.withdraw(other, [(claimed.id, claimed.lease)])
    assert (farm.stored(job).run_at, farm.avoided_by(job)) == (before, [failed.pk])


def test_a_lane_in_which_a_job_came_to_wait_since_it_was_found_asleep_is_not_deleted() -> None:
    farm.kind()
    [job] = farm.submit(1, concurrency_key="one")
    Mark.objects.all().delete()  # as who looked for lanes that sleep saw them before
    Lane.objects.update(created_at=Now() - timedelta(days=2))
    assert lanes.delete(10, 0) == 0
    assert farm.stored(job).lane_id in Lane.objects.values_list("pk", flat=True)


def test_a_plain_submit_reads_no_lanes_of_workers_that_failed_others() -> None:
    farm.kind()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO jobs_lane (queue, priority, is_apart, owner_id, group_id, requirement_id, required_id, avoid)"
            " SELECT 'work', 0, false, 0, 0, 0, 0, ARRAY[n]::bigint[] FROM generate_series(1, 5000) AS n"
        )
        cursor.execute("ANALYZE jobs_lane")
        for _ in range(2):  # the first reads what the function is made of
            cursor.execute(
                "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)"
                " SELECT jobs_enter('work', 0::smallint, NULL, NULL, NULL, '{}', now())"
            )
        plan = cursor.fetchone()[0][0]["Plan"]
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= 40
    assert Lane.objects.filter(queue="work", avoid=[]).count() == 1


@pytest.fixture
def untidy() -> Iterator[None]:
    """Tidying fails."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER FUNCTION jobs_tidy(integer) RENAME TO jobs_tidy_away")
    yield
    with connection.cursor() as cursor:
        cursor.execute("ALTER FUNCTION jobs_tidy_away(integer) RENAME TO jobs_tidy")


@pytest.mark.django_db(transaction=True)
def test_a_claim_is_answered_whatever_becomes_of_the_tidying_after_it(
    untidy: None, caplog: pytest.LogCaptureFixture
) -> None:
    """It is committed by then: a worker that were not answered would not know what it holds."""
    farm.kind()
    farm.submit(60)
    worker = farm.worker()
    assert len(operations.claim(worker, limit=100)) == 60
    assert "jobs_tidy" in caplog.text
