"""Plans that a session keeps from an hour of empty tables are made anew when the tables fill.

A farm at rest has empty tables, and each session keeps its plans: made then, some read whole tables or indexes later.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection, transaction

from jobs import operations, queries
from jobs.domain.records import BEHIND
from jobs.models import Job, Mark, Worker
from jobs.queries import fleet, gauges, moves, reads, rollups, submits
from jobs.queries.reads import Interest
from postgres import statements
from postgres.backend.trips import numbered
from tests import farm, rows
from tests.rows import Sql

pytestmark = pytest.mark.django_db(transaction=True)
WAITING, ENDED, RUNNING = 20_000, 40_000, 20
MORE = 2  # times what the plan of a full table reads; measured: 0.9 to 1.3
BESIDE = 40  # pages, for statements that read next to nothing
LANES = 10_000
TABLES = (
    "jobs_job, jobs_live, jobs_outcome, jobs_uniquekey, jobs_lane, jobs_mark, jobs_queue, jobs_worker, jobs_attempt,"
    " jobs_outputchunk"
)
_PLANNED = re.compile(r"/\*.*?\*/\s*(WITH|SELECT|INSERT|UPDATE|DELETE)\b")  # not COPY, SET, NOTIFY
_NAME = re.compile(r"/\* jobs\.(\w+) \*/")
# Lanes of as many owners, each with a mark, and a count under a ceiling.
_FILL_LANES = """
WITH lane AS (
    INSERT INTO jobs_lane (queue, priority, is_apart, owner_id, group_id, requirement_id, required_id, avoid, share)
    SELECT 'work', 0, true, 100000 + n, 0, 0, 0, '{}', jobs_share('owner', 100000 + n, 0, 0)
    FROM generate_series(1, %(lanes)s) AS n RETURNING *
), mark AS (
    INSERT INTO jobs_mark (lane_id, at, queue, priority, owner_id, group_id, requirement_id, required_id, avoid, share)
    SELECT id, now() - interval '1 hour', queue, priority, owner_id, group_id, requirement_id, required_id, avoid, share
    FROM lane
), waiting AS (  -- of the first of those owners
    UPDATE jobs_live SET lane_id = (SELECT min(id) FROM lane)
    WHERE job_id IN (SELECT job_id FROM jobs_live WHERE lease_secret IS NULL ORDER BY job_id LIMIT 1000)
)
UPDATE jobs_live SET counted_in = 'work' WHERE lease_secret IS NOT NULL
"""
PICK = "jobs_pick_fairly, of one"
_CALLS = {
    "jobs_enter, of a lane that is there": "jobs_enter('work', 0::smallint, 109999, NULL, NULL, '{{}}', now(), NULL)",
    "jobs_enter, of a new lane": "jobs_enter('work', 0::smallint, 99999, NULL, NULL, '{{7}}', now(), NULL)",
    "jobs_wake": "jobs_wake({unused}, now() - interval '2 hours')",
    "jobs_tidy, of many jobs": "jobs_tidy({full})",
    "jobs_tidy, of none": "jobs_tidy({unused})",
    "jobs_delete_lane": "jobs_delete_lane({unused})",
    "jobs_open": "jobs_open('work', true)",
    PICK: "jobs_pick_fairly('work', 'owner', 1, 1, '{{}}', 5, 90, 30)",
    "jobs_takes_until": "jobs_takes_until(1, '{{}}', 5, 90)",
}

Captured = dict[str, dict[str, Any]]


class Session:
    """A connection that keeps its plans, as the farm's do."""

    def __init__(self) -> None:
        parameters = {**connection.get_connection_params(), "prepare_threshold": None, "autocommit": True}
        self._session = psycopg.connect(**parameters | {"cursor_factory": psycopg.ClientCursor})
        self._session.execute("SET plan_cache_mode = force_generic_plan")
        self._count = 0

    def prepare(self, name: str) -> str:
        """Have this statement planned now; the name of the plan."""
        self._count += 1
        text, parameters = numbered(_statement(name).sql)
        plan = f"{name}_{self._count}"
        self._session.execute(f"PREPARE {plan} AS {text.decode()}")
        nulls = f"({', '.join(['NULL'] * len(parameters))})" if parameters else ""
        self._session.execute(f"EXPLAIN EXECUTE {plan}{nulls}")
        return plan

    def pages(self, plan: str, name: str, params: dict[str, Any]) -> int:
        """How many pages the statement reads by this plan; what it writes is rolled back."""
        _, names = numbered(_statement(name).sql)
        values = f"({', '.join(['%s'] * len(names))})" if names else ""
        with self._session.transaction(force_rollback=True):
            explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE {plan}{values}"
            row = self._session.execute(explain, [params[one] for one in names] or None).fetchone()
        assert row is not None
        return int(row[0][0]["Plan"]["Shared Hit Blocks"] + row[0][0]["Plan"]["Shared Read Blocks"])

    def pages_of_call(self, call: str) -> int:
        """How many pages a function of the database reads, which keeps its own plans; what it writes is rolled back."""
        with self._session.transaction(force_rollback=True):
            row = self._session.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT {call}").fetchone()
        assert row is not None
        return int(row[0][0]["Plan"]["Shared Hit Blocks"] + row[0][0]["Plan"]["Shared Read Blocks"])

    def close(self) -> None:
        """End it."""
        self._session.close()


@contextmanager
def capturing(captured: Captured) -> Iterator[None]:
    """Note the parameters of each of the heart's statements that runs meanwhile, those of its first run."""

    def note(execute: Callable[..., Any], sql: Any, params: Any, *rest: Any) -> Any:
        if isinstance(params, dict) and (match := _NAME.match(str(sql))):
            captured.setdefault(match[1], params)
        return execute(sql, params, *rest)

    with connection.execute_wrapper(note):
        yield


def _everything(
    ours: Worker, hers: Worker, held: list[operations.ClaimedJob], ada: User
) -> Iterator[Callable[[], Any]]:
    """What is done with jobs, each on jobs of its own."""
    work, waiting = iter(held), iter(Job.objects.waiting().order_by("-pk")[:10])
    yield lambda: operations.claim(ours)
    yield lambda: operations.claim(hers)
    yield lambda: operations.heartbeat(ours, (job := next(work)).id, job.lease, progress=0.5, detail="half")
    yield lambda: operations.checkpoint(ours, (job := next(work)).id, job.lease, {"half": True})
    yield lambda: operations.write_output(ours, (job := next(work)).id, job.lease, seq=0, text="text")
    yield lambda: farm.succeed(ours, next(work), 1)
    yield lambda: farm.fail(ours, next(work))
    yield lambda: farm.fail(ours, next(work), retryable=False)
    yield lambda: operations.release(ours, (job := next(work)).id, job.lease)
    yield lambda: operations.withdraw(ours, [((job := next(work)).id, job.lease)])
    yield lambda: operations.finish_and_claim(ours, [], limit=5)
    yield lambda: operations.claim(ours, request_id="a repeat")
    yield lambda: operations.cancel(next(work).id, by=None)
    yield lambda: operations.cancel(next(waiting).pk, by=ada)
    yield lambda: operations.change_priority(next(waiting).pk, 5, by=None)
    yield lambda: operations.run_now(next(waiting).pk, by=None)
    yield lambda: operations.submit("work", {}, owner=ada, unique_key="key")
    yield lambda: [operations.submit("work", {}, owner=ada, unique_key="k", on_conflict="replace") for _ in range(2)]
    yield lambda: _follow(ours, ada)
    yield lambda: operations.submit_many([operations.NewJob(kind="work", payload={}, owner=ada)] * 3)
    yield lambda: operations.submit("work", {}, owner=ada, tags=["nightly"])
    yield lambda: moves.lock_overdue(limit=200)
    yield operations.expire
    yield operations.tend_lanes
    yield from _of_lanes(ada)
    yield lambda: queries.lanes.delete(500, 0)
    yield lambda: queries.lanes.part([next(waiting).pk])
    yield lambda: reads.why_not_running(next(waiting).pk)
    yield reads.waiting_queues
    yield reads.next_wake
    yield gauges.queue_loads
    yield lambda: fleet.queue_rows(viewer=ada.pk)
    for owner_id in (None, ada.pk):
        interest = Interest(queues=("work",), owner_id=owner_id)
        yield partial(reads.claimable, [(interest, 5)], horizon_s=5.0)


def _of_lanes(ada: User) -> Iterator[Callable[[], Any]]:
    """What moves some waiting jobs to other lanes."""
    yield lambda: operations.pause_owner(ada)
    yield operations.tend_lanes
    yield lambda: operations.resume_owner(ada)
    yield lambda: operations.set_ages_after("work", 30 * 86400)
    yield operations.tend_lanes


def _follow(ours: Worker, ada: User) -> None:
    for _ in range(3):
        job = operations.submit("work", {}, owner=ada, unique_key="k", on_conflict="after")
        if job.live.run_at != BEHIND:
            farm.hold(job, ours)
    operations.cancel(Job.objects.running().latest("pk").pk, by=None)


def _fill(ours: Worker, ada: User, bob: User) -> list[operations.ClaimedJob]:
    """Full tables of which no statistics know, and jobs that a worker runs."""
    rows.fill(ENDED, status="success", priority=Sql("n %% 3"), fence=1)
    for owner_id, count in ((None, WAITING // 2), (bob.pk, WAITING // 4), (ada.pk, WAITING // 4)):
        rows.fill(count, priority=Sql("n %% 3"), owner_id=owner_id)
    held = operations.claim(ours, limit=RUNNING)
    for job in held[: RUNNING // 2]:
        operations.heartbeat(ours, job.id, job.lease)
    return held


def _statements() -> list[str]:
    """Those of the heart's statements that PostgreSQL plans."""
    names = sorted(file.stem for file in (Path(settings.BASE_DIR) / "jobs" / "sql").glob("*.sql"))
    return [name for name in names if _PLANNED.match(_statement(name).sql)]


def _statement(name: str) -> statements.Statement:
    if name == "rollup_minutes":
        return rollups.counting()
    return submits.statement(name) if name.startswith("submit") else statements.load("jobs", name)


def _is_whole(name: str, params: dict[str, Any]) -> bool:
    """Whether it ran as its file has it: some are made part of another."""
    return bool(params) and set(numbered(_statement(name).sql)[1]) <= params.keys()


@pytest.fixture(autouse=True)
def _without_autovacuum() -> Iterator[None]:
    """It comes by once a minute, here perhaps in the middle."""
    with connection.cursor() as cursor:
        for table in ("jobs_job", "jobs_live", "jobs_outcome"):
            cursor.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
    yield
    with connection.cursor() as cursor:
        for table in ("jobs_job", "jobs_live", "jobs_outcome"):
            cursor.execute(f"ALTER TABLE {table} RESET (autovacuum_enabled)")


def test_are_made_anew_when_the_tables_fill() -> None:
    farm.kind()
    ada, bob = farm.user("ada"), farm.user("bob")
    ours, hers = farm.worker("ours"), farm.worker("hers", owner=ada)
    with connection.cursor() as cursor:
        cursor.execute(f"VACUUM (ANALYZE) {TABLES}")
    session = Session()
    try:
        names = _statements()
        plans = {name: session.prepare(name) for name in names}
        held = _fill(ours, ada, bob)
        captured: Captured = {}
        for act in _everything(ours, hers, held, ada):
            with transaction.atomic(), capturing(captured):
                act()
                transaction.set_rollback(True)
        params_of = {name: captured[name] for name in plans if _is_whole(name, captured.get(name, {}))}
        empty = {name: session.pages(plans[name], name, params) for name, params in params_of.items()}
        _janitor_comes_by()
        kept = {name: session.pages(plans[name], name, params) for name, params in params_of.items()}
        fresh = {name: session.pages(session.prepare(name), name, params) for name, params in params_of.items()}
    finally:
        session.close()
    for name in sorted(params_of):
        print(f"{name}: planned while empty {empty[name]} pages, then {kept[name]}; when full {fresh[name]}")
    assert len(params_of) > 15
    worse = {name: (kept[name], fresh[name]) for name in params_of if kept[name] > MORE * fresh[name] + BESIDE}
    assert worse == {}
    assert max(empty.values()) > 1000, "an empty hour's plans are as good: this test is for nothing"


def test_of_the_functions_of_lanes_read_next_to_nothing_when_the_tables_fill() -> None:
    farm.kind()
    ada, bob = farm.user("ada"), farm.user("bob")
    ours = farm.worker("ours")
    farm.worker("hers", owner=ada)
    operations.set_ceiling("work", LANES)
    with connection.cursor() as cursor:
        # What other tests left makes an index higher than the primary key's, and the dearer way to the one row.
        cursor.execute("REINDEX TABLE jobs_lane")
        cursor.execute(f"VACUUM (ANALYZE) {TABLES}")
    session, later = Session(), Session()
    try:
        _pages_of_calls(session, full=0, unused=0)
        _fill(ours, ada, bob)
        with connection.cursor() as cursor:
            cursor.execute(_FILL_LANES, {"lanes": LANES})
        _janitor_comes_by()  # without it jobs_enter read all lanes once in several runs of all tests: 284 pages
        full, unused = Job.objects.latest("pk").lane_id, Mark.objects.latest("pk").lane_id
        kept, fresh = (_pages_of_calls(one, full=full, unused=unused) for one in (session, later))
    finally:
        session.close()
        later.close()
    print(f"pages by plans of an empty hour {kept}; of full tables {fresh}")
    assert {name: pages for name, pages in kept.items() if pages > BESIDE and name != PICK} == {}
    assert {name: pages for name, pages in fresh.items() if pages > BESIDE and name != PICK} == {}
    assert kept[PICK] < 2 * BESIDE  # it writes a mark, whose lane has 1,000 jobs


def _pages_of_calls(session: Session, **lanes: int | None) -> dict[str, int]:
    """The least of three times: a session reads up what it has not seen, and all again once autovacuum came by."""
    calls = {name: call.format(**lanes) for name, call in _CALLS.items()}
    return {name: min(session.pages_of_call(call) for _ in range(3)) for name, call in calls.items()}


def _janitor_comes_by() -> None:
    """It counts tables that have outgrown their statistics."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
    operations.next_due_s()
    assert reads.next_wake().outgrown == []
