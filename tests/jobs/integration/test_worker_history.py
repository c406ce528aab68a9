"""What a worker did: rates, failures by kind, success since a moment; and that none of it reads all that ended."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from jobs import operations
from jobs.domain.workers import Presence
from jobs.models import HealthScore, Worker
from jobs.queries import fleet, workers
from postgres import statements
from tests import farm, rows
from tests.explained import explain
from tests.rows import Sql

pytestmark = pytest.mark.django_db
ENDED = 60_000
MOST_PAGES = 6000  # Measured: 400 for the ended jobs, 4,500 for 1,200 failed attempts.

FAIL = """
INSERT INTO jobs_attempt (job_id, number, attempt, outcome, worker_id, worker_name, claimed_at, ended_at, error)
SELECT n, 1, 1, 'failed', %(worker)s + n %% 50, 'w', now() - interval '1 hour', now() - n * interval '1 s', ''
FROM generate_series(1, 60000) AS n
"""


class TestWhatItDid:
    def test_is_told_by_kind_share_and_last_jobs(self) -> None:
        farm.kind()
        worker, other = farm.worker("a"), farm.worker("b")
        farm.submit(3)
        claimed = operations.claim(worker, limit=3)
        farm.succeed(worker, claimed[0])
        farm.fail(worker, claimed[1], retryable=False)
        operations.cancel(claimed[2].id, by=None)
        did = workers.lately(worker.pk)
        assert (did.succeeded, did.failed, did.ended) == (1, 1, 2)
        assert {job.pk for job in did.jobs} == {each.id for each in claimed}
        [failed] = workers.failures(worker.pk)
        assert (failed.kind, failed.day, failed.week) == ("work", 1, 1)
        assert workers.lately(other.pk).jobs == ()
        assert workers.failures(other.pk) == []
        [rates] = workers.rates([worker.pk, other.pk]).values()
        assert (rates.per_hour, rates.failed) == (3.0, 0.5)
        assert rates.run_s is not None

    def test_by_day_has_a_gap_where_nothing_was_scored(self) -> None:
        worker = farm.worker("a")
        yesterday = farm.now().date() - timedelta(days=1)
        HealthScore.objects.create(
            day=yesterday, subject="worker", name=f"a #{worker.pk}", ended=4, succeeded=3, score=0.75, backlog=0
        )
        days = workers.days(worker)
        assert len(days) == workers.DAYS
        assert [score.ended if score else None for score in days[-2:]] == [None, 4]


class TestPresence:
    def test_is_since_when_a_worker_is_there(self) -> None:
        made, _ = operations.create_worker("w", queues=["work"])
        [row] = fleet.worker_rows(viewer=0)
        assert (row.presence, row.worker.connected_at) == (Presence.NEVER_CONNECTED, None)
        operations.seen([made.pk])
        came = Worker.objects.get(pk=made.pk).connected_at
        Worker.objects.update(last_seen_at=farm.now() - timedelta(seconds=30))
        operations.seen([made.pk])
        row = fleet.visible_worker(made.pk, user=farm.user("root", is_staff=True, is_superuser=True))
        assert (row.presence, row.worker.connected_at) == (Presence.LIVE, came)
        Worker.objects.update(last_seen_at=farm.now() - timedelta(seconds=300))
        [row] = fleet.worker_rows(viewer=0)
        assert row.presence is Presence.AWAY
        operations.seen([made.pk])
        again = Worker.objects.get(pk=made.pk).connected_at
        assert came is not None
        assert again is not None
        assert again > came
        operations.revoke(made)
        [row] = fleet.worker_rows(viewer=0, with_revoked=True)
        assert row.presence is Presence.REVOKED


@pytest.mark.usefixtures("no_dead_rows")
class TestPlans:
    @pytest.fixture
    def busy(self) -> Worker:
        """A worker on a farm where 60,000 jobs ended within the hour, and 60,000 attempts failed."""
        farm.kind()
        worker = farm.worker()
        ago = Sql("now() - n * interval '50 ms'")
        rows.fill(ENDED, status="success", claimed_at=ago, ended_at=ago, worker_id=worker.pk, worker_name="w", fence=1)
        with connection.cursor() as cursor:
            cursor.execute(FAIL, {"worker": worker.pk})
            cursor.execute("ANALYZE jobs_job, jobs_outcome, jobs_attempt")
        return worker

    def test_read_no_more_than_is_said(self, busy: Worker) -> None:
        lately = {"workers": [busy.pk], "seconds": 86400.0, "most": workers.MOST_READ, "listed": workers.LISTED}
        _check("worker_lately", lately)
        _check("worker_failures", {"worker": busy.pk, "most": workers.MOST_FAILED})
        # With a bound of a third of the table, a scan of all of it is the cheaper plan: no mistake of the planner.
        _check("timeline", {**workers.timeline_bounds(minutes=60), "most_ended": ENDED // 30})
        _check("worker_lately", lately | {"seconds": 3600.0, "most": workers.MOST_RATED, "listed": 0})


def _check(name: str, given: dict[str, Any]) -> None:
    plan = explain(statements.load("jobs", name), given)["Plan"]
    scanned = {node["Relation Name"] for node in _nodes(plan) if node["Node Type"] == "Seq Scan"}
    assert not scanned & {"jobs_job", "jobs_outcome", "jobs_attempt"}
    pages = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    print(f"{name}: {pages} pages")
    assert pages <= MOST_PAGES


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)
