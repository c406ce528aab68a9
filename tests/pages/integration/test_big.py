"""What the pages ask of a farm with 300,000 ended jobs: nothing that grows with them.

What is read is asserted in pages of eight kilobytes (buffers), which do not depend on the machine; times are printed.
"""

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection, transaction
from pytest_django import DjangoDbBlocker

from jobs import operations
from jobs.domain.bulks import BulkAction
from jobs.domain.filters import Filters
from jobs.domain.rollups import HOUR_S, MINUTE_S, PERIODS, floored
from jobs.models import Job, RollupWatermark
from jobs.operations import rollup
from jobs.queries import gauges, lists, rollups
from tests import farm, rows
from tests.looped import looped
from tests.rows import Sql

pytestmark = pytest.mark.django_db
ENDED, WAITING = 300_000, 12_000
WHOLE_TABLE = 8_000  # buffers that a scan of these jobs reads at the least: some 37 rows in each


class Big:
    """The people of this farm: ada has a third of it, bob the oldest few, his club has them too."""

    def __init__(self) -> None:
        self.club = Group.objects.create(name="club")
        self.ada, self.bob = farm.user("ada"), farm.user("bob", groups=[self.club])
        self.boss = User.objects.create_superuser("boss", password=farm.PASSWORD)
        operations.create_worker("names", queues=[f"q{n}" for n in range(10)])
        at = "(now() - interval '20 days' + n * interval '5.75 s')"
        rows.fill(
            ENDED,
            status=Sql("CASE WHEN n %% 1000 = 1 THEN 'failed' WHEN n %% 5000 = 2 THEN 'timed_out' ELSE 'success' END"),
            kind=Sql("CASE WHEN n %% 100000 = 7 THEN 'rare' ELSE 'work' END"), queue=Sql("'q' || n %% 10"),
            owner_id=Sql(f"CASE WHEN n %% 3 = 0 THEN {self.ada.pk} WHEN n < 20 THEN {self.bob.pk} END"),
            group_id=Sql(f"CASE WHEN n < 10 THEN {self.club.pk} END"), worker_name=Sql("'w' || n %% 7"),
            created_at=Sql(at), run_at=Sql(at), claimed_at=Sql(f"{at} + interval '1 s'"),
            ended_at=Sql(f"{at} + interval '2 s'"), fence=1, payload='{"prompt": "x"}',
        )  # fmt: skip
        rows.fill(WAITING, queue="q1", created_at=Sql("now()"), run_at=Sql("now()"), payload='{"prompt": "x"}')
        with connection.cursor() as cursor:
            cursor.execute("VACUUM (ANALYZE) jobs_job, jobs_live, jobs_outcome")


@pytest.fixture(scope="module")
def big(no_dead_rows: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Big]:
    """The full table, committed, for all tests of this module; emptied at its end."""
    with django_db_blocker.unblock():
        assert str(connection.settings_dict["NAME"]).startswith("test_")
        try:
            yield Big()
        finally:
            with connection.cursor() as cursor:
                cursor.execute(
                    "TRUNCATE jobs_job, jobs_live, jobs_outcome, jobs_worker, jobs_queue, jobs_rollup,"
                    " jobs_rollupwatermark, jobs_bulk, jobs_bulkitem, auth_user, auth_group, auth_user_groups CASCADE"
                )
            operations.sync()
            connection.close()


@pytest.fixture(autouse=True)
def _filled(big: Big) -> None:
    """No test of this module runs on an empty table."""


def _buffers_of(read: Callable[[], object]) -> int:
    """How many buffers the statements of this read touch, each explained as it was asked."""
    statements: list[tuple[str, Any]] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        statements.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        read()
    return sum(_explained(sql, params) for sql, params in statements if "jobs_job" in sql)


def _explained(sql: str, params: Any) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", params)
        plan = cursor.fetchone()[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def _plan(sql: str, params: Any) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {sql}", params)
        return "\n".join(line for (line,) in cursor.fetchall())


@pytest.fixture
def _short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """So far back that it is a small part of this table, as SCAN_LIMIT is of a large one."""
    monkeypatch.setattr(lists, "SCAN_LIMIT", 5_000)
    monkeypatch.setattr(lists, "TEXT_SCAN_LIMIT", 200)


CASES = [
    pytest.param({}, id="nothing"),
    pytest.param({"status": "failed"}, id="failed"),
    pytest.param({"status": "pending"}, id="pending"),
    pytest.param({"status": "in_progress"}, id="running, of which there are none"),
    pytest.param({"status": "canceled"}, id="canceled, of which there are none"),
    pytest.param({"status": "success"}, id="success"),
    pytest.param({"kind": "rare"}, id="a rare kind"),
    pytest.param({"kind": "none"}, id="a kind without jobs"),
    pytest.param({"queue": "q3", "status": "failed"}, id="two at once"),
    pytest.param({"worker": "w9"}, id="an unknown worker"),
    pytest.param({"owner": "bob"}, id="an owner of old jobs"),
    pytest.param({"owner": "ada", "status": "timed_out"}, id="an owner of many, and a rare state"),
    pytest.param({"group": "club"}, id="a group of old jobs"),
    pytest.param({"until": "{old}"}, id="old ones"),
    pytest.param({"since": "{old}", "until": "{less old}", "kind": "none"}, id="none of a day"),
    pytest.param({"text": "needle"}, id="a text that is nowhere"),
    pytest.param({"text": "needle", "owner": "bob"}, id="a text among few"),
]


@pytest.mark.usefixtures("_short_way")
class TestAList:
    @looped("given", CASES, rolled_back=True)
    def test_is_read_without_walking_through_the_table_whatever_it_is_narrowed_to(
        self, big: Big, given: dict[str, str]
    ) -> None:
        now = farm.now()
        days = {"{old}": now - timedelta(days=15), "{less old}": now - timedelta(days=14)}
        filters = Filters(**{k: days[v].isoformat() if v in days else v for k, v in given.items()})
        for viewer in (lists.EVERYBODY, big.ada.pk, big.bob.pk):
            began = time.perf_counter()
            lists.page(viewer=viewer, filters=filters)
            took_ms = (time.perf_counter() - began) * 1000
            read = _buffers_of(lambda whose=viewer: lists.page(viewer=whose, filters=filters))  # type: ignore[misc]
            print(f"{given} for {viewer}: {took_ms:.0f} ms, {read} buffers")
            assert read < WHOLE_TABLE / 3  # measured: 1 to 2,319

    def test_with_a_text_reads_the_payloads_of_its_way_alone(self, big: Big, monkeypatch: pytest.MonkeyPatch) -> None:
        """With so long a way the planner would rather read all payloads once and keep those that fit."""
        monkeypatch.setattr(lists, "TEXT_SCAN_LIMIT", 5_000)
        statements: list[tuple[str, Any]] = []

        def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
            statements.append((sql, params))
            return execute(sql, params, many, context)

        with connection.execute_wrapper(note):
            lists.page(viewer=lists.EVERYBODY, filters=Filters(text="needle"))
        plans = [_plan(sql, params) for sql, params in statements if "payload" in sql]
        assert [plan for plan in plans if "Seq Scan on jobs_job" in plan or not plan] == []
        assert plans != []

    @pytest.mark.parametrize("given", [{}, {"status": "failed"}, {"owner": "bob"}, {"group": "club"}])
    def test_to_which_an_index_leads_is_complete_at_once(self, big: Big, given: dict[str, str]) -> None:
        expected = {"status": 300, "owner": 13, "group": 9}
        filters = Filters(**given)
        seen, page = 0, lists.page(viewer=lists.EVERYBODY, filters=filters)
        assert len(page.jobs) == min(lists.PAGE, *(expected[name] for name in given), 50)
        while given and page.older:
            seen += len(page.jobs)
            page = lists.page(viewer=lists.EVERYBODY, filters=filters, before=page.older)
        assert not given or seen + len(page.jobs) == expected[next(iter(given))]


class TestTheRollUp:
    def test_finds_the_jobs_of_a_minute_by_halving(self, big: Big) -> None:
        for moment in (farm.now(), farm.now() - timedelta(days=7), farm.now() - timedelta(days=400)):
            read = _buffers_of(lambda at=moment: rollups.first_since(at))  # type: ignore[misc]
            first = rollups.first_since(moment)
            late = Job.objects.filter(pk__lt=first, created_at__gte=moment)
            assert (late.exists(), read < 300) == (False, True)
            early = Job.objects.filter(pk__gte=first, created_at__lt=moment - timedelta(minutes=2))
            assert not early.exists()

    def test_of_two_minutes_reads_what_happened_in_them(self, big: Big) -> None:
        now = floored(farm.now() - timedelta(hours=3), step_s=MINUTE_S)
        with transaction.atomic():
            read = _buffers_of(lambda: rollups.count_minutes(since=now, until=now + timedelta(minutes=2)))
            transaction.set_rollback(True)
        print(f"two minutes of 20 jobs: {read} buffers")
        assert read < 2_000

    def test_that_was_away_for_long_catches_up_in_some_turns(self, big: Big, monkeypatch: pytest.MonkeyPatch) -> None:
        now = farm.now()
        since = floored(now - timedelta(hours=26), step_s=HOUR_S)
        RollupWatermark.objects.create(settled_until=since, counted_at=since)
        monkeypatch.setattr(rollup, "BUDGET_S", 0.2)
        began, turns = time.perf_counter(), 1
        while rollup.count(rollups.moments()):
            turns += 1
        print(f"26 hours, 16,000 jobs: {time.perf_counter() - began:.1f} s in {turns} turns")
        history = rollups.history(PERIODS["day"], now=now)
        in_them = Job.objects.filter(created_at__gte=history.points[0].at).count()
        assert (history.total.arrived, in_them > WAITING + 10_000) == (in_them, True)


class TestTheStates:
    def test_are_counted_to_a_bound_and_estimated_beyond(self, big: Big) -> None:
        figures = {figure.title: figure for figure in gauges.figures()}
        assert figures["Pending, due now"].text == "10,000+"
        assert (figures["Failed"].text, figures["Timed out"].text) == ("300", "60")
        assert (figures["In progress"].text, figures["Canceled"].text) == ("0", "0")
        assert 290_000 < figures["Success"].number < 310_000
        assert figures["Success"].text.startswith("about ")
        read = _buffers_of(gauges.figures)
        print(f"figures: {read} buffers")
        assert read < WHOLE_TABLE / 4


class TestABulk:
    def test_is_counted_within_a_second_or_so(self, big: Big) -> None:
        began = time.perf_counter()
        statements = operations.bulk.create(BulkAction.RETRY, by=big.boss, filters=Filters(status="failed"))
        while statements.phase == "counting":
            operations.bulk.step(bulk_id=statements.pk)
            statements.refresh_from_db()
        print(f"counted {statements.matched} of {ENDED}: {time.perf_counter() - began:.2f} s")
        assert statements.matched == 300


def test_the_tables_are_as_full_as_these_tests_say() -> None:
    assert Job.objects.ended().count() == ENDED
    assert Job.objects.waiting().count() == WAITING
