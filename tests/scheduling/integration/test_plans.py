"""Depth must not show: what a look into the queue reads, with 20,000 due and 200,000 that wait.

The statistics are those of the empty queue, as after a quiet hour: they say that nothing waits.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction
from pytest_django import DjangoDbBlocker

from postgres import connections, statements
from scheduling.domain.calls import Kind
from scheduling.models import Cron, Due
from scheduling.operations import clusters
from scheduling.queries import functions
from scheduling.queries.functions import Lane
from tests.explained import explain

DUE, WAITING = 20_000, 200_000
LIMIT, PILE = 50, 15_000
# A row of the wide table is found by its key (4 pages), one of the queue by its lane. Measured: 260 for fifty.
BUFFERS_FOR_EACH, BUFFERS_BESIDES = 6, 60

FILL = """
WITH born AS (
    INSERT INTO scheduling_scheduledfunction (function, kind, queue, priority, args, status, attempt, run_at)
    SELECT 'x', 'mutation', %(queue)s, %(priority)s, '{}', 'pending', 1,
           now() + make_interval(secs => %(due_in_s)s) + n * interval '1 us'
    FROM generate_series(1, %(count)s) AS n RETURNING id, kind, queue, priority, run_at)
INSERT INTO scheduling_due (function_id, kind, queue, priority, run_at, next_at)
SELECT id, kind, queue, priority, run_at, run_at FROM born
"""

FAILED = """
INSERT INTO scheduling_scheduledfunction
    (function, kind, queue, priority, args, status, attempt, run_at, ended_at, error, cron_id, fire_at)
SELECT 'x', 'mutation', 'default', 0, '{}', 'failed', 1, now(),
       now() - make_interval(days => %(days)s, secs => n / 10.0), 'x', %(cron)s,
       CASE WHEN %(cron)s IS NOT NULL THEN now() - make_interval(secs => n / 10.0) END
FROM generate_series(1, %(count)s) AS n
"""


@pytest.fixture(scope="module")
def deep(no_dead_rows: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Due ones at two priorities of two queues, and many that wait before and behind them in the index."""
    with django_db_blocker.unblock():
        run("ALTER TABLE scheduling_due SET (autovacuum_enabled = false)")
        run("VACUUM (ANALYZE) scheduling_due")
        year = 365 * 86400
        for queue, priority, due_in_s, count in (
            ("default", 0, -60, DUE), ("default", 0, year, WAITING), ("default", 5, year, 1000),
            ("default", -5, year, 1000), ("mail", 0, -30, 1000), ("mail", 0, year, 1000),
        ):  # fmt: skip
            run(FILL, {"queue": queue, "priority": priority, "due_in_s": due_in_s, "count": count})
        try:
            yield
        finally:
            run("TRUNCATE scheduling_due, scheduling_scheduledfunction")
            run("ALTER TABLE scheduling_due RESET (autovacuum_enabled)")


def run(statement: str, params: dict[str, Any] | None = None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, params)


def explained(name: str, params: dict[str, Any]) -> dict[str, Any]:
    with transaction.atomic():
        plan: dict[str, Any] = explain(statements.load("scheduling", name), params)["Plan"]
        transaction.set_rollback(True)
    return plan


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def buffers(plan: dict[str, Any]) -> int:
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def ways_into_the_queue(plan: dict[str, Any]) -> set[str]:
    """How scheduling_due is read: the names of its indexes, and any other scan by its type."""
    scans = [n for n in nodes(plan) if n.get("Relation Name") == "scheduling_due" and n.get("Actual Loops")]
    return {n.get("Index Name", n["Node Type"]) for n in scans}


def dispatch_params(limit: int, lanes: Sequence[Lane] | None = None) -> dict[str, Any]:
    lanes = functions.lanes(Kind.MUTATION) if lanes is None else lanes
    columns = {
        "queue": [lane.queue for lane in lanes], "priority": [lane.priority for lane in lanes],
        "since_at": [lane.since_at for lane in lanes], "since_id": [lane.since_id for lane in lanes],
    }  # fmt: skip
    given = {"kind": "mutation", "limit": limit, "excluded": [], "rank": 0, "clusters": 1}
    return given | columns | {"fresh": limit // 4, "fresh_s": 3.0, "behind_s": 0.1}


@pytest.mark.django_db
@pytest.mark.usefixtures("deep")
class TestALookIntoTheQueue:
    def test_reads_what_it_brings_and_not_the_backlog(self) -> None:
        plan = explained("dispatch", dispatch_params(LIMIT))
        assert plan["Actual Rows"] == LIMIT
        assert ways_into_the_queue(plan) == {"scheduling_due_lanes"}
        assert max(n["Actual Rows"] * n["Actual Loops"] for n in nodes(plan)) <= 3 * LIMIT
        assert buffers(plan) <= BUFFERS_FOR_EACH * LIMIT + BUFFERS_BESIDES

    def test_finds_the_lanes_by_jumping_from_one_to_the_next(self) -> None:
        plan = explained("lanes", {"kind": "mutation", "queues": None})
        assert plan["Actual Rows"] == 4
        assert ways_into_the_queue(plan) == {"scheduling_due_lanes"}
        assert buffers(plan) <= BUFFERS_BESIDES

    def test_knows_when_the_next_one_is_due_from_the_head_of_each_lane(self) -> None:
        lanes = functions.lanes(Kind.MUTATION)
        given = {"queue": [lane.queue for lane in lanes], "priority": [lane.priority for lane in lanes]}
        plan = explained("next_wake", given | {"kind": "mutation", "excluded": [], "lookback_s": 2.0, "declared": []})
        assert ways_into_the_queue(plan) == {"scheduling_due_lanes"}
        assert buffers(plan) <= BUFFERS_BESIDES

    def test_for_what_is_late_stops_at_a_thousand(self) -> None:
        plan = explained("health", {"late_s": 15.0})
        assert ways_into_the_queue(plan) == {"scheduling_due_lanes"}
        assert max(n["Actual Rows"] * n["Actual Loops"] for n in nodes(plan)) <= 2000

    def test_for_what_failed_reads_no_kept_failures(self) -> None:
        for days, cron, count in ((3, None, 30_000), (0, None, 30_000), (0, "often", 3_000)):
            run(FAILED, {"days": days, "cron": cron, "count": count})
        Cron.objects.create(name="often", function="x", schedule="every 60 s", args={})
        run("ANALYZE scheduling_scheduledfunction")
        looks = explained("health", {"late_s": 15.0}), explained("failing_crons", {"limit": 5})
        assert looks[1]["Actual Rows"] == 1
        for plan in looks:
            read = [node for node in nodes(plan) if node.get("Relation Name") == "scheduling_scheduledfunction"]
            assert max(node["Actual Rows"] * node["Actual Loops"] for node in read) <= 1000
            assert sum(node.get("Rows Removed by Filter", 0) for node in read) <= 1000

    def test_goes_by_priority_and_time_through_all_queues(self) -> None:
        found = clusters.dispatch(Kind.MUTATION, limit=DUE + 2000)
        ids = [one.id for one in found]
        assert len(ids) == DUE + 1000
        assert ids == sorted(ids)


@pytest.mark.django_db(transaction=True)  # so it comes last: it ends with an empty queue
@pytest.mark.usefixtures("deep")
class TestALookBehindAPile:
    def test_of_what_is_done_begins_where_the_last_one_found_something(self) -> None:
        """A long transaction keeps the rows of all that ran since: they stay in the index."""
        done = [one.id for one in clusters.dispatch(Kind.MUTATION, limit=PILE)]
        with psycopg.connect(connections.conninfo()) as long:
            long.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            long.execute("SELECT count(*) FROM scheduling_due WHERE function_id = 0")
            Due.objects.filter(pk__in=done).delete()
            _, heads = functions.dispatch(Kind.MUTATION, functions.lanes(Kind.MUTATION), limit=LIMIT)
            whole, part = (
                explained("dispatch", dispatch_params(LIMIT, lanes))
                for lanes in (functions.lanes(Kind.MUTATION), heads)
            )
        assert whole["Actual Rows"] == part["Actual Rows"] == LIMIT
        assert buffers(part) <= BUFFERS_FOR_EACH * LIMIT + BUFFERS_BESIDES < buffers(whole)
