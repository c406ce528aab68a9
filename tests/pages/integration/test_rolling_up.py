"""The roll-up counts each job once, however often it runs, where it dies, and when a job becomes visible."""

import random
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from core.backoff import Backoff
from jobs import operations
from jobs.domain import rollups
from jobs.models import Job, Rollup, RollupWatermark, Tag
from jobs.operations import rollup
from jobs.queries import rollups as queries
from jobs.queries.rollups import Moments
from scheduling import operations as scheduling
from tests import farm

pytestmark = pytest.mark.django_db

COUNTED = ("arrived", "success", "failed", "canceled", "timed_out")
FILL = """
WITH past AS MATERIALIZED (
    SELECT nextval('jobs_job_id_seq') AS id, ordered.* FROM (
        SELECT * FROM unnest(%s::text[], %s::text[], %s::timestamptz[], %s::interval[], %s::interval[])
                      AS past (queue, status, created_at, waited, ran) ORDER BY created_at) AS ordered
), record AS (
    INSERT INTO jobs_job (id, kind, queue, priority, created_at, max_attempts, retry_on_timeout, payload)
    SELECT id, 'work', queue, 0, created_at, 3, false, '{}' FROM past
)
INSERT INTO jobs_outcome (job_id, kind, queue, status, run_at, claimed_at, ended_at, fence)
SELECT id, 'work', queue, status, created_at, created_at + waited, created_at + waited + ran, 1 FROM past
"""


def _count(*, later: timedelta = timedelta(0)) -> int:
    """A roll-up, as if so much time had passed."""
    moments = queries.moments()
    return rollup.count(Moments(now=moments.now + later, horizon=moments.horizon + later))


def _totals(step_s: int = rollups.MINUTE_S) -> dict[str, dict[str, int]]:
    """What was counted, by queue, without what is zero."""
    sums: dict[str, dict[str, int]] = {}
    for row in Rollup.objects.filter(step_s=step_s):
        of_queue = sums.setdefault(row.queue, dict.fromkeys(COUNTED, 0))
        for name in COUNTED:
            of_queue[name] += getattr(row, name)
    return {queue: {name: n for name, n in total.items() if n} for queue, total in sums.items()}


def _rows() -> list[tuple[Any, ...]]:
    return sorted(Rollup.objects.values_list("step_s", "at", "queue", *COUNTED, "ran", "waited"), key=str)


def _one_of_each() -> None:
    """Five jobs that end in every way, and one that waits."""
    farm.kind()
    for how in ("success", "failed", "canceled", "timed_out"):
        farm.ended(how)
    farm.submit(1)


EACH_ONCE = {"work": {"arrived": 5, "success": 1, "failed": 1, "canceled": 1, "timed_out": 1}}


class TestCounting:
    def test_tells_what_arrived_and_how_it_ended_by_queue(self) -> None:
        _one_of_each()
        farm.kind("other")
        farm.submit(3, "other")
        assert _count() > 0
        for step_s in rollups.STEPS_S:
            assert _totals(step_s) == EACH_ONCE | {"other": {"arrived": 3}}

    def test_again_changes_nothing(self) -> None:
        _one_of_each()
        _count()
        before = _rows()
        assert [_count(), _count(later=timedelta(minutes=5)), _count(later=timedelta(minutes=90))] == [0, 0, 0]
        assert before == _rows()

    def test_that_dies_halfway_leaves_nothing_half_counted(self) -> None:
        _one_of_each()

        def die(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
            if 'INTO "jobs_rollup"' in sql and rest[0][0] == rollups.TEN_MINUTES_S:
                raise ZeroDivisionError
            return execute(sql, *rest)

        with pytest.raises(ZeroDivisionError), connection.execute_wrapper(die):
            _count()
        assert _rows() == []
        _count()
        assert _totals() == EACH_ONCE

    def test_follows_a_job_to_another_queue(self) -> None:
        farm.kind()
        farm.kind("other")
        [job] = farm.submit(1)
        _count()
        Job.objects.filter(pk=job.pk).update(queue="other")
        _count()
        for step_s in rollups.STEPS_S:
            assert _totals(step_s) == {"other": {"arrived": 1}}

    def test_forgets_what_no_chart_shows(self) -> None:
        now = farm.now()
        empty = dict.fromkeys(COUNTED, 0) | {"ran": {}, "waited": {}, "queue": "work"}
        for step_s, kept in rollups.RETENTION.items():
            for age in (kept - timedelta(hours=2), kept + timedelta(hours=2)):
                Rollup.objects.create(step_s=step_s, at=now - age, **empty)
        assert sum(scheduling.retain().values()) == 3
        assert Rollup.objects.count() == 3


class TestThePast:
    @pytest.fixture
    def past(self) -> list[tuple[str, str, datetime, timedelta, timedelta]]:
        """Five hundred jobs of the last three hours, with runs and waits of all lengths."""
        rng = random.Random(7)
        now = farm.now()
        rows = []
        for _ in range(500):
            waited = timedelta(microseconds=int(10 ** rng.uniform(3.1, 8.5)))
            ran = timedelta(microseconds=int(10 ** rng.uniform(3.1, 8.5)))
            created_at = now - waited - ran - timedelta(seconds=rng.uniform(1, 10_000))
            rows.append((rng.choice("ab"), rng.choice(COUNTED[1:]), created_at, waited, ran))
        with connection.cursor() as cursor:
            cursor.execute(FILL, [list(column) for column in zip(*rows, strict=True)])
        return rows

    def test_is_counted_in_stretches_once_the_farm_is_counted_at_all(
        self, past: list[tuple[str, str, datetime, timedelta, timedelta]]
    ) -> None:
        _count()
        found = Counter(row[0] for row in past)
        assert {queue: total["arrived"] for queue, total in _totals().items()} == found
        ended = Counter((row[0], row[1]) for row in past)
        for step_s in rollups.STEPS_S:
            counted = {
                (queue, how): number
                for queue, total in _totals(step_s).items()
                for how, number in total.items()
                if how != "arrived"
            }
            assert counted == ended
        for row in Rollup.objects.filter(step_s=rollups.MINUTE_S):
            assert row.at == rollups.floored(row.at, step_s=rollups.MINUTE_S)

    def test_has_its_times_in_the_buckets_that_the_rule_in_python_names(
        self, past: list[tuple[str, str, datetime, timedelta, timedelta]]
    ) -> None:
        _count()
        by_themselves = [row for row in past if row[1] in {"success", "failed"}]
        times = {"waited": [row[3] for row in by_themselves], "ran": [row[4] for row in by_themselves]}
        for column, durations in times.items():
            expected = Counter(str(rollups.bucket(length.total_seconds())) for length in durations)
            for step_s in rollups.STEPS_S:
                rows = Rollup.objects.filter(step_s=step_s).values_list(column, flat=True)
                assert rollups.merged(rows) == expected

    def test_is_drawn_in_as_many_points_as_the_period_has_steps(
        self, past: list[tuple[str, str, datetime, timedelta, timedelta]]
    ) -> None:
        _count()
        now = farm.now()
        for period in rollups.PERIODS.values():
            history = queries.history(period, now=now)
            points = history.points
            assert len(points) == period.steps
            assert points[-1].at <= now < points[-1].at + timedelta(seconds=period.step_s)
            since = points[0].at
            assert sum(point.arrived for point in points) == sum(row[2] >= since for row in past)
            by_queue = [part.total for part in history.queues]
            assert sum(total.ended for total in by_queue) == sum(point.ended for point in points)
            assert history.total.ended == sum(point.ended for point in points)
            assert [part.name for part in history.queues] == ["a", "b"]


class TestKinds:
    @pytest.fixture
    def in_one_queue(self) -> None:
        """Two kinds in one queue: a success of each, and one more of the first that waits."""
        for name in ("work", "other"):
            farm.kind(name)
            [job] = farm.submit(1, name)
            Job.objects.filter(pk=job.pk).update(queue="work")
            by = farm.worker(f"for {name}", "work")
            farm.succeed(by, farm.claim_one(by))
        farm.submit(1, "work")

    @pytest.mark.usefixtures("in_one_queue")
    def test_are_counted_apart_and_add_up_to_their_queue(self) -> None:
        _count()
        for period in rollups.PERIODS.values():
            history = queries.history(period, now=farm.now())
            numbers = {part.name: (part.total.arrived, part.total.success) for part in history.kinds}
            assert numbers == {"other": (1, 1), "work": (2, 1)}
            [queue] = history.queues
            assert (queue.total.arrived, queue.total.success) == (3, 2)
            assert all(part.total.ran_p99_s is not None for part in history.kinds)

    @pytest.mark.usefixtures("in_one_queue")
    def test_replace_what_was_counted_of_the_same_minutes_without_them(self) -> None:
        _count()
        before = _totals()
        for step_s in rollups.STEPS_S:
            Rollup.objects.filter(step_s=step_s, kind="other").update(kind="")
        _count()
        assert _totals() == before
        assert set(Rollup.objects.values_list("kind", flat=True)) == {"other", "work"}

    @pytest.mark.usefixtures("in_one_queue")
    def test_are_those_that_most_happened_to(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(queries, "MOST_KINDS", 1)
        _count()
        history = queries.history(rollups.PERIODS["hour"], now=farm.now())
        assert [part.name for part in history.kinds] == ["work"]


class TestWhatIsKnown:
    def test_begins_with_the_farm_or_its_first_number_and_ends_with_the_last_count(self) -> None:
        now = farm.now()
        minute, hour = timedelta(minutes=1), rollups.PERIODS["hour"]
        known = (now - 20 * minute, now - 5 * minute)
        counted = [point.is_counted for point in queries.history(hour, now=now, known=known).points]
        assert counted == [False] * 39 + [True] * 16 + [False] * 5
        numbers = dict.fromkeys(COUNTED, 0) | {"queue": "work", "kind": "work", "ran": {}, "waited": {}}
        at = rollups.floored(now - 30 * minute, step_s=60)
        Rollup.objects.create(step_s=60, at=at, **numbers)
        counted = [point.is_counted for point in queries.history(hour, now=now, known=known).points]
        assert counted == [False] * 29 + [True] * 26 + [False] * 5
        assert all(point.is_counted for point in queries.history(hour, now=now).points)

    def test_of_a_farm_is_since_its_tables_were_made(self) -> None:
        assert queries.began_at() <= farm.now()


class TestAWait:
    def test_is_from_when_the_job_was_due(self) -> None:
        farm.kind()
        [job] = farm.submit(1)
        farm.pass_time(job, 100)
        by = farm.worker()
        farm.succeed(by, farm.claim_one(by))
        _count()
        [waited] = Rollup.objects.filter(step_s=60).exclude(waited={}).values_list("waited", flat=True)
        assert waited == {str(rollups.bucket(100)): 1}

    def test_of_a_later_attempt_is_from_the_end_of_the_one_before(self) -> None:
        farm.kind(backoff=_at_once())
        [job] = farm.submit(1)
        farm.pass_time(job, 10_000)
        by = farm.worker()
        farm.fail(by, farm.claim_one(by))
        farm.succeed(by, farm.claim_one(by))
        _count()
        [waited] = Rollup.objects.filter(step_s=60).exclude(waited={}).values_list("waited", flat=True)
        assert [int(number) < rollups.bucket(60) for number in waited] == [True]


def _at_once() -> Any:
    return Backoff(first_s=0.0)


class TestWhatIsSettled:
    def test_ends_before_the_horizon_and_never_goes_back(self) -> None:
        farm.kind()
        farm.submit(1)
        _count()
        first = RollupWatermark.objects.get().settled_until
        assert first <= queries.moments().horizon
        _count(later=timedelta(minutes=10))
        later = RollupWatermark.objects.get().settled_until
        assert later > first
        _count()
        assert RollupWatermark.objects.get().settled_until == later
        assert operations.roll_up() == 0


class TestATag:
    """Its jobs are counted when somebody looks, and nothing is written for them."""

    def test_is_counted_as_all_jobs_are(self) -> None:
        _one_of_each()
        _count()
        Tag.objects.bulk_create(Tag(tag="nightly", job_id=pk) for pk in Job.objects.values_list("pk", flat=True))
        now = farm.now()
        for period in rollups.PERIODS.values():
            counted, tagged = (
                queries.history(period, now=now, chosen=chosen) for chosen in (None, queries.Chosen(tag="nightly"))
            )
            assert tagged == counted
            assert tagged.total.arrived == 5

    def test_has_its_own_jobs_alone(self) -> None:
        farm.kind()
        operations.submit("work", None, tags=["nightly", "b"])
        operations.submit("work", None, tags=["b"])
        farm.submit(2)
        history = {
            tag: queries.history(rollups.PERIODS["hour"], now=farm.now(), chosen=queries.Chosen(tag=tag))
            for tag in ("nightly", "b", "none")
        }
        assert {tag: one.total.arrived for tag, one in history.items()} == {"nightly": 1, "b": 2, "none": 0}
        assert not Rollup.objects.exists()

    def test_of_very_many_jobs_says_since_when_it_is_known(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(queries, "MOST_TAGGED", 3)
        farm.kind()
        jobs = farm.submit(5, tags=["nightly"])
        now, period = farm.now(), rollups.PERIODS["hour"]
        farm.alter(jobs[2], created_at=now - timedelta(minutes=10))
        since = queries.Chosen(tag="nightly").since()
        assert since == now - timedelta(minutes=10)
        history = queries.history(period, now=now, chosen=queries.Chosen(tag="nightly"), known=(since, now))
        assert history.total.arrived == 3
        assert sum(point.is_counted for point in history.points) == 11
        assert queries.Chosen(tag="other").since() is None


class TestGroups:
    """What the charts can be grouped by is counted when somebody looks."""

    def test_are_those_that_most_happened_to_and_all_others_as_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(queries, "MOST_GROUPS", 2)
        farm.kind()
        for number in range(5):
            farm.submit(5 - number, tags=[f"t{number}", "all"])
        counted = queries.groups(rollups.PERIODS["hour"], now=farm.now(), chosen=queries.Chosen(), by="tag")
        assert [(part.name, part.total.arrived, part.others) for part in counted] == [
            ("all", 15, 0), ("t0", 5, 0), ("", 10, 4),
        ]  # fmt: skip
        assert not Rollup.objects.exists()

    def test_of_a_person_are_of_their_own_jobs_and_ends_and_durations_are_counted_too(self) -> None:
        farm.kind()
        ada, bo = farm.user("ada"), farm.user("bo")
        for owner in (ada, bo):
            farm.ended("success", owner=owner, tags=["a", "b"])
            farm.ended("failed", owner=owner, tags=["b"])
        chosen = queries.Chosen(owner=ada.pk)
        for period in rollups.PERIODS.values():
            counted = queries.groups(period, now=farm.now(), chosen=chosen, by="tag")
            numbers = {part.name: (part.total.arrived, part.total.success, part.total.failed) for part in counted}
            assert numbers == {"a": (1, 1, 0), "b": (2, 1, 1)}
            assert all(part.total.ran_p99_s is not None for part in counted)
            assert queries.history(period, now=farm.now(), chosen=chosen).total.ended == 2
        owners = queries.groups(rollups.PERIODS["day"], now=farm.now(), chosen=queries.Chosen(tag="a"), by="owner")
        assert [(part.name, part.total.ended) for part in owners] == [("ada", 1), ("bo", 1)]

    @pytest.mark.parametrize("of", ["all", "tag", "owner"])
    def test_look_at_no_more_than_the_newest_so_many_jobs(self, monkeypatch: pytest.MonkeyPatch, of: str) -> None:
        monkeypatch.setattr(queries, "MOST_TAGGED", 3)
        farm.kind()
        ada = farm.user("ada")
        farm.submit(5, owner=ada, tags=["a"])
        chosen = queries.Chosen(tag="a" if of == "tag" else "", owner=ada.pk if of == "owner" else None)
        counted = queries.groups(rollups.PERIODS["hour"], now=farm.now(), chosen=chosen, by="tag")
        assert [part.total.arrived for part in counted] == [3]
        assert chosen.since() is not None
