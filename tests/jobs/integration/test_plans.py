"""Depth must not show: the claim's and the janitor's plans with 200,000 ended and 45,000 waiting jobs.

Every plan is the generic one, as in production. Each test is rolled back; the rows lie there for all of them.
"""

import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoDbBlocker, Settings

from jobs import operations
from jobs.models import ALL_JOBS, Job, Mark, Worker
from jobs.queries import fleet, moves, usage
from postgres import statements
from tests import farm, rows
from tests.explained import explain
from tests.rows import Sql

pytestmark = pytest.mark.django_db
ENDED, AT_THE_HEAD = 200_000, 10_000
SMALL = 200
# What a claim may read more from the full queue than from one with 200 jobs: a level of the index for each
# descent. Measured: 2 to 11.
MORE_BUFFERS = 25
MOST_BUFFERS = 150  # in any case, whatever lies at the head. Measured: 11 to 45.

_OF_JOBS = {"jobs_job", "jobs_live", "jobs_outcome"}


class Farm:
    """What lies in the table while these tests run: queues, each with something else in the way."""

    def __init__(self) -> None:
        club = Group.objects.create(name="club")
        self.ada, self.bob = farm.user("ada", groups=[club]), farm.user("bob")
        self.me, self.other = farm.worker("me", "deep"), farm.worker("other", "deep")
        self.hers = farm.worker("hers", "deep", "shallow", "foreign", "future", owner=self.ada)
        self.club = club
        operations.create_worker(
            "names", queues=["deep", "shallow", "excluding", "foreign", "bounded", "future", "ended"]
        )

    def fill(self) -> None:
        """All rows, in bulk; then what autovacuum would have done by now."""
        excluding, bob = [self.me.pk], self.bob.pk
        self._add("ended", ENDED, status="success")
        for queue, head in (
            ("excluding", {"avoid": excluding}), ("foreign", {"owner_id": bob}), ("bounded", {}),
            ("future", {"due_in_h": 5}),
        ):  # fmt: skip
            self._add(queue, AT_THE_HEAD, priority=50, **head)
            self._add(queue, 1, owner_id=self.ada.pk, group_id=self.club.pk)
        self._add("deep", AT_THE_HEAD // 2, owner_id=self.ada.pk, avoid=[self.other.pk])
        self._add("deep", SMALL)
        self._add("shallow", SMALL // 2)
        self._add("shallow", SMALL // 2, owner_id=self.ada.pk)
        operations.set_ceiling("bounded", 3)
        with connection.cursor() as cursor:
            cursor.execute(
                "VACUUM (ANALYZE) jobs_job, jobs_live, jobs_outcome, jobs_lane, jobs_mark, jobs_queue, jobs_worker"
            )

    def _add(self, queue: str, count: int, *, due_in_h: int = -1, **fields: Any) -> None:
        due = Sql(f"now() + interval '{due_in_h} hours' + n * interval '1 ms'")
        rows.fill(count, queue=queue, run_at=due, fence=int(fields.get("status") == "success"), **fields)


@pytest.fixture(scope="module")
def big(no_dead_rows: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Farm]:
    """The full tables, committed, for all tests of this module; emptied at its end."""
    with django_db_blocker.unblock():
        assert str(connection.settings_dict["NAME"]).startswith("test_")
        try:
            full = Farm()
            full.fill()
            yield full
        finally:
            _empty()
            connection.close()


def _empty() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "TRUNCATE jobs_job, jobs_live, jobs_outcome, jobs_lane, jobs_mark, jobs_attempt, jobs_worker, jobs_queue,"
            " jobs_kind, jobs_share, jobs_outputchunk, jobs_resultfile, auth_user, auth_group, auth_user_groups CASCADE"
        )
    operations.sync()


@pytest.fixture(autouse=True)
def _filled(big: Farm, settings: Settings) -> None:
    """No test of this module runs on an empty table, and who is to leave jobs to others is to while it runs."""
    settings.JOBFARM = {**settings.JOBFARM, "EXCLUSION_S": 7200.0}


def _explain(statement: str, **params: Any) -> dict[str, Any]:
    return _root(statements.load("jobs", statement), params)


def _root(statement: statements.Statement, params: statements.Params) -> dict[str, Any]:
    """The root node of the plan, run for real."""
    with transaction.atomic():
        plan: dict[str, Any] = explain(statement, params)["Plan"]
        transaction.set_rollback(True)
    return plan


def _explain_query(read: Callable[[], object]) -> dict[str, Any]:
    """The root node of the plan of the one query of the ORM that this runs."""
    with CaptureQueriesContext(connection) as queries:
        read()
    [query] = queries
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query['sql']}")
        plan: dict[str, Any] = cursor.fetchone()[0][0]["Plan"]
    return plan


def _claim(worker: Worker, *queues: str, limit: int = 1, steal: bool = False) -> dict[str, Any]:
    return _root(*moves.claim_call(worker, queues=queues, limit=limit, only_if_idle=steal))


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)


def _buffers(plan: dict[str, Any]) -> int:
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def _jobs_are_read_by(plan: dict[str, Any]) -> set[str]:
    """How jobs_job is read: names of indexes, and any other kind of scan by its type. Whether a table of a few
    rows (queues, lanes, marks, workers) is read by its key depends on when it was vacuumed: its indexes are left
    out."""
    scans = [n for n in _nodes(plan) if n["Node Type"].endswith("Scan") and n.get("Actual Loops")]
    named = {n["Index Name"] for n in scans if n.get("Index Name", "").startswith("jobs_")}
    small = ("jobs_lane", "jobs_mark", "jobs_queue", "jobs_worker")
    return {n for n in named if not n.startswith(small)} | {
        n["Node Type"] for n in scans if n.get("Relation Name") in _OF_JOBS and "Index Name" not in n
    }


def _took(plan: dict[str, Any]) -> int:
    """How many jobs the claim moved."""
    return sum(int(n["Actual Rows"]) for n in _nodes(plan) if n.get("Subplan Name") == "CTE claimed")


HEAD = [
    pytest.param("me", "excluding", id="shy of this worker"),
    pytest.param("hers", "foreign", id="out of its scope"),
    pytest.param("other", "bounded", id="under a ceiling"),
    pytest.param("me", "future", id="not due"),
    pytest.param("hers", "future", id="not due, for a member's worker"),
    pytest.param("me", "deep", id="plain"),
    pytest.param("other", "deep", id="shy of it in part"),
    pytest.param("hers", "deep", id="its owner's"),
]


class TestTheClaim:
    @pytest.mark.parametrize(("worker", "queue"), HEAD)
    @pytest.mark.parametrize("steal", [False, True])
    def test_reads_jobs_by_its_partial_indexes_alone(self, big: Farm, worker: str, queue: str, steal: bool) -> None:
        plan = _claim(getattr(big, worker), queue, steal=steal)
        assert _took(plan) == 1
        by_index = _jobs_are_read_by(plan)
        assert {"jobs_waiting"} <= by_index <= {"jobs_waiting", "jobs_running", "jobs_job_pkey", "Tid Scan"}

    @pytest.mark.parametrize(("worker", "queue"), HEAD)
    def test_reads_no_more_with_ten_thousand_in_its_way_than_with_two_hundred_in_all(
        self, big: Farm, worker: str, queue: str
    ) -> None:
        claimer = getattr(big, worker)
        _claim(claimer, queue)
        deep, shallow = _buffers(_claim(claimer, queue)), _buffers(_claim(claimer, "shallow"))
        print(f"buffers of a claim by {worker} from {queue}: {deep}, from 200 rows: {shallow}")
        assert deep <= shallow + MORE_BUFFERS
        assert deep <= MOST_BUFFERS

    def test_of_nothing_that_is_for_it_reads_next_to_nothing(self, big: Farm) -> None:
        """All ten thousand are another's, or hidden: the answer is as cheap as a job."""
        Job.objects.filter(queue__in=["excluding", "foreign"], priority=0).update(queue="deep")
        for worker, queue in ((big.me, "excluding"), (big.hers, "foreign")):
            plan = _claim(worker, queue)
            assert (_took(plan), _buffers(plan) <= MOST_BUFFERS) == (0, True)

    def test_of_a_batch_reads_in_proportion_to_what_it_takes(self, big: Farm) -> None:
        plan = _claim(big.me, "deep", limit=100)
        assert _took(plan) == 100
        print(f"buffers of a claim of a hundred: {_buffers(plan)}")
        assert _buffers(plan) <= 100 * 30

    def test_with_fifty_queues_chooses_among_them_without_a_scan(self, big: Farm) -> None:
        operations.create_worker("many", queues=[f"empty{n}" for n in range(50)])
        plan = _claim(big.me, *(f"empty{n}" for n in range(50)), "deep")
        assert _took(plan) == 1
        assert "Seq Scan" not in _jobs_are_read_by(plan)
        assert _buffers(plan) <= 50 * 12 + MOST_BUFFERS

    def test_takes_this_long(self, big: Farm) -> None:
        """Printed, never asserted: other machines have other clocks."""
        for worker, queue in (("me", "deep"), ("me", "excluding"), ("hers", "foreign")):
            times = [_claim(getattr(big, worker), queue)["Actual Total Time"] for _ in range(30)]
            print(f"a claim by {worker} from {queue}: p50 {statistics.median(times):.2f} ms")


class TestTheNotifier:
    @pytest.mark.parametrize("owner", [None, "ada", "bob"])
    def test_asks_its_partial_index_and_stops_at_what_was_asked(self, big: Farm, owner: str | None) -> None:
        owner_id = owner and getattr(big, owner).pk
        for queues in ("deep", "foreign", "deep,shy,shallow"):
            given = {
                "queues": [queues], "owner": [owner_id], "wanted": [5], "horizon_s": 5.0, "satisfies": ["{}"]
            }  # fmt: skip
            plan = _explain("available", **given, **moves.taking())
            assert _jobs_are_read_by(plan) <= {"jobs_waiting", "jobs_counted"}
            print(f"buffers of the notifier for {owner} at {queues}: {_buffers(plan)}")
            assert _buffers(plan) <= MOST_BUFFERS


class TestTheJanitor:
    @pytest.mark.parametrize(
        ("name", "params"),
        [
            ("next_wake", {"gap_s": 15.0, "grace_s": 25.0, "but_for": []}),
            (
                "lock_overdue",
                {"limit": 200, "lease_s": 60.0, "gap_s": 15.0, "grace_s": 25.0, "but_for": [], "avoid_s": 30.0},
            ),
            ("lock_expired", {"limit": 200, "but_for": []}),
        ],
    )
    def test_looks_only_where_something_can_be(self, name: str, params: dict[str, Any]) -> None:
        plan = _explain(name, **params)
        assert "Seq Scan" not in _jobs_are_read_by(plan)
        assert _buffers(plan) <= MOST_BUFFERS

    def test_tidies_lanes_without_reading_what_waits_behind_the_first_job_of_each(self) -> None:
        awake = Mark.objects.values("lane_id").distinct().count()
        plan = _explain("tidy", lanes=None, queues=None, after=0, limit=500)
        assert _buffers(plan) <= 25 * awake

    def test_forgets_by_age(self) -> None:
        for age_s, deleted in ((86400.0, 0), (-1.0, 500)):
            plan = _explain("retain", age_s=age_s, limit=500, skip=0)
            assert plan["Actual Rows"] == deleted
            assert not {n["Relation Name"] for n in _nodes(plan) if n["Node Type"] == "Seq Scan"} & {*_OF_JOBS}
            print(f"buffers of forgetting {deleted}: {_buffers(plan)}")
            assert _buffers(plan) <= MOST_BUFFERS + 40 * deleted


class TestTheHolder:
    def test_is_found_by_the_primary_key(self, big: Farm) -> None:
        [claimed] = operations.claim(big.me, queues=["deep"])
        many = {
            "version": None,
            "worker": big.me.pk,
            "job": [claimed.id],
            "fence": [1],
            "secret": [claimed.lease.secret],
        }
        quotas = {"attempt_quota": 9, "job_quota": 9, "piece_quota": 9, "farm_room": 9, "near": [1], "room": [9]}
        plans = {
            "heartbeat": _explain("heartbeat", **many, lease_s=60.0, progress=[0.5], detail=["x"], is_alone=True),
            "write_output": _explain("write_output", **many, lease_s=60.0, seq=[0], text=["x"], size=[1], **quotas),
            "lock_held": _explain("lock_held", **many, grace_s=30.0, wait="500ms"),
            "succeed": _explain("succeed", **many, result=["{}"], wait="500ms"),
        }
        for name, plan in plans.items():
            read_by = {n for n in _jobs_are_read_by(plan) if n.endswith("Scan")}
            assert "Seq Scan" not in read_by, name
            assert _buffers(plan) <= 40, name


class TestUsage:
    def test_counts_what_waits_of_one_owner_along_an_index_and_no_further_than_its_limit(self, big: Farm) -> None:
        for limit, buffers in ((100, MOST_BUFFERS), (20_000, 1_000)):
            plan = _explain_query(partial(usage.waiting, big.bob.pk, limit=limit))
            assert _jobs_are_read_by(plan) <= {"jobs_waiting_of_owner"}
            print(f"buffers of counting {limit} that wait: {_buffers(plan)}")
            assert _buffers(plan) <= buffers

    def test_counts_what_waits_in_all_without_reading_what_ended(self) -> None:
        bounded = _explain_query(partial(usage.waiting, ALL_JOBS, limit=100_000))
        for plan in (bounded, _explain("usage_count_waiting")):
            whole = {n["Relation Name"] for n in _nodes(plan) if n["Node Type"] == "Seq Scan"}
            assert not whole & {"jobs_job", "jobs_outcome"}
            print(f"buffers of counting what waits: {_buffers(plan)}")

    def test_of_an_owner_is_read_by_key(self, big: Farm) -> None:
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO jobs_usage (owner_id) SELECT n FROM generate_series(0, 20000) AS n")
            cursor.execute(
                "INSERT INTO jobs_usagedelta (owner_id, files) SELECT n, 1 FROM generate_series(1, 20000) AS n"
            )
            cursor.execute("ANALYZE jobs_usage, jobs_usagedelta")
        plan = _explain("usage", owners=[big.ada.pk, big.bob.pk])
        print(f"buffers of the usage of two: {_buffers(plan)}")
        assert _buffers(plan) <= MOST_BUFFERS

    def test_is_charged_and_freed_by_triggers_that_read_no_other_jobs(self, big: Farm) -> None:
        [claimed] = operations.claim(big.me, queues=["deep"])
        before = _read_from_end_to_end()
        operations.write_output(big.me, claimed.id, claimed.lease, seq=0, text="x")
        file = moves.keep_file(claimed.id, attempt=1, name="a", stored_as="a", size=1, sha256="a")
        farm.succeed(big.me, claimed)
        Job.objects.filter(pk=claimed.id).update(owner=big.bob)
        file.delete()
        farm.retain()
        assert _read_from_end_to_end() == before


def _read_from_end_to_end() -> int:
    """How often this transaction has read all of jobs_job."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT seq_scan FROM pg_stat_xact_user_tables WHERE relname = 'jobs_job'")
        return int(cursor.fetchone()[0])


class TestTheMetrics:
    def test_find_the_oldest_of_each_queue_without_reading_what_waits_behind_it(self, big: Farm) -> None:
        plan = _explain("scale", name="", limit=1, queues=fleet.MOST_MEASURED)
        assert "Seq Scan" not in _jobs_are_read_by(plan)
        print(f"buffers of the oldest of each queue: {_buffers(plan)}")
        assert _buffers(plan) <= MOST_BUFFERS


class TestWhy:
    def test_counts_what_is_ahead_no_further_than_its_limit(self, big: Farm) -> None:
        last = Job.objects.filter(queue="foreign", priority=0).get()
        plan = _explain("why_not_running", job=last.pk, limit=1000, grace_s=30.0, **moves.taking())
        assert "Seq Scan" not in _jobs_are_read_by(plan)
        print(f"buffers of why: {_buffers(plan)}")


def test_the_tables_are_as_full_as_these_tests_say() -> None:
    assert Job.objects.ended("success").count() == ENDED
    assert Job.objects.waiting().count() == 4 * AT_THE_HEAD + 4 + 5000 + 2 * SMALL
