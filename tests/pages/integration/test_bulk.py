"""Deeds on everything that matches: counted first, each job once, and taken back where that is true."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now

from jobs import limits, operations
from jobs.domain.bulks import BulkAction, Phase
from jobs.domain.filters import Filters
from jobs.errors import InvalidValue, NotFound, UnknownQueue
from jobs.models import Bulk, BulkItem, Job, Worker
from jobs.operations import bulk
from jobs.queries import lists
from ratelimits import operations as ratelimits
from scheduling.models import ScheduledFunction
from tests import farm

pytestmark = pytest.mark.django_db


@pytest.fixture
def worker() -> Worker:
    """Who works, if asked."""
    farm.kind()
    farm.kind("other")
    return farm.worker("w1", "work", "other")


def _do(action: BulkAction, by: User, *, value: str = "", **filters: str) -> Bulk:
    """Ask, say yes, and let the scheduler do all of it."""
    created = operations.bulk.create(action, by=by, filters=Filters(**filters), value=value)
    return _to_the_end(operations.bulk.begin(created.pk, by=by))


def _to_the_end(made: Bulk) -> Bulk:
    made.refresh_from_db()
    while made.phase not in {Phase.DONE, Phase.STOPPED}:
        operations.bulk.step(bulk_id=made.pk)
        made.refresh_from_db()
    return made


def _statuses() -> dict[str, int]:
    found: dict[str, int] = {}
    for status in farm.statuses():
        found[status] = found.get(status, 0) + 1
    return found


class TestAsking:
    def test_counts_what_matches_and_changes_nothing(self, boss: User, worker: Worker) -> None:
        farm.submit(7)
        farm.submit(3, "other")
        farm.claim_one(worker)
        before = list(Job.objects.order_by("pk").values())
        created = operations.bulk.create(BulkAction.CANCEL, by=boss, filters=Filters(queue="work"))
        assert (created.phase, created.matched, created.handled) == (Phase.READY, 7, 0)
        assert operations.bulk.create(BulkAction.QUEUE, by=boss, filters=Filters(), value="other").matched == 9
        assert before == list(Job.objects.order_by("pk").values())
        assert not ScheduledFunction.objects.exists()

    def test_leaves_nothing_to_the_scheduler_when_the_last_count_took_the_time(
        self, boss: User, worker: Worker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bulk, "COUNTED_AT_ONCE_S", -1.0)
        farm.submit(7)
        created = operations.bulk.create(BulkAction.CANCEL, by=boss, filters=Filters())
        assert (created.phase, created.matched) == (Phase.READY, 7)
        assert not ScheduledFunction.objects.exists()

    def test_counts_in_stretches_and_leaves_to_the_scheduler_what_takes_long(
        self, boss: User, worker: Worker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lists, "SCAN_LIMIT", 4)
        monkeypatch.setattr(bulk, "COUNTED_AT_ONCE_S", -1.0)
        farm.submit(23)
        created = operations.bulk.create(BulkAction.CANCEL, by=boss, filters=Filters())
        assert (created.phase, created.matched) == (Phase.COUNTING, 4)
        assert ScheduledFunction.objects.get().args == {"bulk_id": created.pk}
        with pytest.raises(InvalidValue, match="still being counted"):
            operations.bulk.begin(created.pk, by=boss)
        operations.bulk.step(bulk_id=created.pk)
        created.refresh_from_db()
        assert (created.phase, created.matched) == (Phase.READY, 23)
        assert _to_the_end(operations.bulk.begin(created.pk, by=boss)).changed == 23

    @pytest.mark.parametrize(
        ("action", "value", "refusal"),
        [
            (BulkAction.QUEUE, "nowhere", UnknownQueue),
            (BulkAction.PRIORITY, "101", InvalidValue),
            (BulkAction.PRIORITY, "high", InvalidValue),
            (BulkAction.UNDO, "", InvalidValue),
        ],
    )
    def test_refuses_what_makes_no_sense(
        self, boss: User, action: BulkAction, value: str, refusal: type[Exception]
    ) -> None:
        with pytest.raises(refusal):
            operations.bulk.create(action, by=boss, filters=Filters(), value=value)
        assert not Bulk.objects.exists()

    def test_of_an_age_means_what_it_meant_then(self, boss: User, worker: Worker) -> None:
        [old] = farm.submit(1)
        farm.pass_time(old, 7200)
        farm.submit(2)
        created = operations.bulk.create(BulkAction.CANCEL, by=boss, filters=Filters(age="hour"))
        assert (created.matched, set(created.filters)) == (2, {"since"})


class TestCanceling:
    def test_ends_what_waits_and_what_runs_and_says_which(self, boss: User, worker: Worker) -> None:
        farm.submit(5)
        running = farm.claim_one(worker)
        [other] = farm.submit(1, "other")
        done = _do(BulkAction.CANCEL, boss, queue="work")
        assert done.results == {"canceled before start": 4, "canceled while running": 1}
        assert (done.phase, done.changed, done.handled) == (Phase.DONE, 5, 5)
        assert farm.status(other) == "pending"
        assert farm.succeed(worker, running) != "success"

    def test_leaves_alone_what_came_after_the_question(self, boss: User, worker: Worker) -> None:
        farm.submit(2)
        created = operations.bulk.create(BulkAction.CANCEL, by=boss, filters=Filters())
        [late] = farm.submit(1)
        _to_the_end(operations.bulk.begin(created.pk, by=boss))
        assert _statuses() == {"canceled": 2, "pending": 1}
        assert farm.status(late) == "pending"

    def test_is_noted_once_in_the_log_at_its_beginning_and_its_end(self, boss: User, worker: Worker) -> None:
        farm.submit(300)
        made = _do(BulkAction.CANCEL, boss)
        lines = LogEntry.objects.filter(object_id=str(made.pk)).order_by("pk")
        assert [(line.user, line.change_message) for line in lines] == [
            (boss, "Cancel 300 jobs: {}"),
            (boss, "done: 300 canceled before start"),
        ]

    def test_undone_submits_what_waited_once_more_as_new_jobs(self, boss: User, worker: Worker) -> None:
        later = farm.now() + timedelta(hours=5)
        farm.submit(2, unique_key=None)
        [planned] = farm.submit(1, run_at=later)
        farm.claim_one(worker)
        made = _do(BulkAction.CANCEL, boss)
        assert BulkItem.objects.filter(bulk=made).count() == 2
        undone = _to_the_end(operations.bulk.undo(made.pk, by=boss))
        assert undone.results == {"retried": 2}
        assert _statuses() == {"canceled": 3, "pending": 2}
        again = Job.objects.get(retry_of=planned)
        assert (again.run_at, again.payload) == (later, {"n": 0})
        assert operations.bulk.undo(made.pk, by=boss).pk == undone.pk
        with pytest.raises(InvalidValue):
            operations.bulk.undo(undone.pk, by=boss)


class TestRetrying:
    @pytest.fixture
    def failed(self, worker: Worker) -> list[Job]:
        """Three that failed, one of which has a twin by now."""
        jobs = [*farm.submit(2), *farm.submit(1, unique_key="one")]
        for _ in jobs:
            farm.fail(worker, farm.claim_one(worker), retryable=False)
        farm.submit(1, unique_key="one")
        return jobs

    def test_submits_each_once_and_says_of_the_others_why_not(self, boss: User, failed: list[Job]) -> None:
        made = _do(BulkAction.RETRY, boss, status="failed")
        assert made.changed == 2
        assert sorted(made.results.values()) == [1, 2]
        new = Job.objects.filter(retry_of__isnull=False)
        assert {job.retry_of_id for job in new} == {job.pk for job in failed[:2]}

    def test_undone_cancels_the_new_ones_that_nobody_has_taken(
        self, boss: User, worker: Worker, failed: list[Job]
    ) -> None:
        made = _do(BulkAction.RETRY, boss, status="failed")
        farm.alter(Job.objects.waiting().filter(retry_of__isnull=True), run_at=F("run_at") + timedelta(hours=1))
        taken = farm.claim_one(worker)
        undone = _to_the_end(operations.bulk.undo(made.pk, by=boss))
        assert undone.results == {"canceled before start": 1, "had been taken by a worker": 1}
        assert farm.status(taken) == "in_progress"

    def test_of_a_member_waits_for_what_they_may_submit(self, worker: Worker, failed: list[Job]) -> None:
        ada = farm.user()
        with connection.cursor() as cursor:
            cursor.execute("UPDATE jobs_job SET owner_id = %s", [ada.pk])
            cursor.execute("UPDATE jobs_uniquekey SET owner_id = %s", [ada.pk])
        most = ratelimits.config_of(limits.SUBMIT_USER).most
        for _ in range(2):  # into debt: what comes in while this runs changes nothing
            ratelimits.limit(limits.SUBMIT_USER, key=f"user:{ada.pk}", count=most, reserve=True)
        created = operations.bulk.create(BulkAction.RETRY, by=ada, filters=Filters())
        operations.bulk.begin(created.pk, by=ada)
        operations.bulk.step(bulk_id=created.pk)
        next_step = ScheduledFunction.objects.latest("pk")
        assert (next_step.args, next_step.run_at > next_step.created_at) == ({"bulk_id": created.pk}, True)
        assert not Job.objects.filter(retry_of__isnull=False).exists()
        ratelimits.reset(limits.SUBMIT_USER, key=f"user:{ada.pk}")
        assert _to_the_end(created).changed == 2


class TestChanging:
    def test_the_queue_moves_what_waits(self, boss: User, worker: Worker) -> None:
        farm.submit(3)
        running = farm.claim_one(worker)
        made = _do(BulkAction.QUEUE, boss, value="other", queue="work")
        assert made.results == {"changed": 2}
        assert Job.objects.get(pk=running.id).queue == "work"
        assert Job.objects.waiting().filter(queue="other").count() == 2
        assert len(operations.claim(farm.worker("w2", "other"), limit=9)) == 2

    def test_the_priority_changes_who_goes_first(self, boss: User, worker: Worker) -> None:
        first, second = farm.submit(2)
        made = _do(BulkAction.PRIORITY, boss, value="9", text='"n": 1')
        assert (made.results, farm.claim_one(worker).id) == ({"changed": 1}, second.pk)
        assert farm.status(first) == "pending"

    def test_undone_puts_back_what_still_waits_and_is_as_it_was_left(self, boss: User, worker: Worker) -> None:
        one, two, three = farm.submit(3, priority=1)
        made = _do(BulkAction.PRIORITY, boss, value="-5")
        Job.objects.filter(pk=two.pk).update(priority=50)  # somebody changed their mind
        assert farm.claim_one(worker).id == two.pk
        Job.objects.filter(pk=three.pk).update(priority=7)
        undone = _to_the_end(operations.bulk.undo(made.pk, by=boss))
        assert undone.results == {"put back": 1, "did not wait any more, or were changed since": 2}
        assert list(Job.objects.order_by("pk").values_list("priority", flat=True)) == [1, 50, 7]
        assert one.pk

    def test_run_now_makes_due_what_waits_for_a_time_but_not_for_its_limit(self, boss: User, worker: Worker) -> None:
        later = farm.now() + timedelta(hours=5)
        planned, limited = farm.submit(2, run_at=later)
        farm.submit(1)
        Job.objects.filter(pk=limited.pk).update(limit_name="x", limit_count=1, limit_until=later)
        made = _do(BulkAction.RUN_NOW, boss)
        waits = "wait for their limit, budget, signal or another job"
        assert made.results == {"run now": 1, "were due already": 1, waits: 1}
        assert {claimed.id for claimed in operations.claim(worker, limit=9)} >= {planned.pk}
        assert farm.status(limited) == "pending"

    def test_run_now_is_undone(self, boss: User, worker: Worker) -> None:
        later = farm.now() + timedelta(hours=5)
        [planned] = farm.submit(1, run_at=later)
        made = _do(BulkAction.RUN_NOW, boss)
        assert _to_the_end(operations.bulk.undo(made.pk, by=boss)).results == {"put back": 1}
        assert Job.objects.get(pk=planned.pk).run_at == later


class TestWhose:
    def test_a_member_reaches_their_own_alone(self, worker: Worker) -> None:
        group = Group.objects.create(name="studio")
        ada, bob = farm.user("ada", groups=[group]), farm.user("bob", groups=[group])
        [own] = farm.submit(1, owner=ada)
        [shared] = farm.submit(1, owner=bob, group=group)
        assert _do(BulkAction.CANCEL, ada).results == {"canceled before start": 1}
        assert [farm.status(own), farm.status(shared)] == ["canceled", "pending"]

    def test_staff_that_may_only_look_reach_their_own_alone(self, worker: Worker) -> None:
        reader = farm.user("reader", is_staff=True)
        reader.user_permissions.add(Permission.objects.get(codename="view_job"))
        farm.submit(2)
        assert operations.bulk.create(BulkAction.CANCEL, by=reader, filters=Filters()).matched == 0

    def test_anothers_is_not_found(self, boss: User, worker: Worker) -> None:
        created = operations.bulk.create(BulkAction.CANCEL, by=boss, filters=Filters())
        for action in (operations.bulk.begin, operations.bulk.stop, operations.bulk.undo):
            with pytest.raises(NotFound):
                action(created.pk, by=farm.user(f"eve{action.__name__}"))

    def test_whoever_loses_their_rights_on_the_way_reaches_no_further(
        self, boss: User, worker: Worker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bulk, "BATCH", 2)
        monkeypatch.setattr(bulk, "STEP_S", -1.0)
        farm.submit(6)
        created = operations.bulk.create(BulkAction.CANCEL, by=boss, filters=Filters())
        operations.bulk.begin(created.pk, by=boss)
        operations.bulk.step(bulk_id=created.pk)
        User.objects.filter(pk=boss.pk).update(is_superuser=False)
        assert _to_the_end(created).changed == 2
        User.objects.filter(pk=boss.pk).update(is_superuser=True)
        created = operations.bulk.create(BulkAction.CANCEL, by=boss, filters=Filters())
        operations.bulk.begin(created.pk, by=boss)
        User.objects.filter(pk=boss.pk).update(is_active=False)
        stopped = _to_the_end(created)
        assert (stopped.phase, stopped.changed, stopped.why) == (
            Phase.STOPPED, 0, "the account that started it is no longer active",
        )  # fmt: skip


class TestAStep:
    def test_that_dies_in_a_batch_goes_on_where_the_last_one_ended(
        self, boss: User, worker: Worker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bulk, "RETRIED_AT_ONCE", 2)
        for _ in range(5):
            farm.submit(1)
            farm.fail(worker, farm.claim_one(worker), retryable=False)
        created = operations.bulk.create(BulkAction.RETRY, by=boss, filters=Filters())
        operations.bulk.begin(created.pk, by=boss)
        with pytest.raises(ZeroDivisionError), connection.execute_wrapper(_dying_at(3)):
            operations.bulk.step(bulk_id=created.pk)
        created.refresh_from_db()
        assert 0 < created.handled < 5
        assert _to_the_end(created).changed == 5
        assert Job.objects.filter(retry_of__isnull=False).values("retry_of").distinct().count() == 5
        assert Job.objects.filter(retry_of__isnull=False).count() == 5

    def test_said_yes_to_twice_does_it_once(self, boss: User, worker: Worker) -> None:
        farm.submit(1)
        farm.fail(worker, farm.claim_one(worker), retryable=False)
        created = operations.bulk.create(BulkAction.RETRY, by=boss, filters=Filters())
        for _ in range(2):
            operations.bulk.begin(created.pk, by=boss)
        _to_the_end(created)
        operations.bulk.step(bulk_id=created.pk)
        assert (Job.objects.filter(retry_of__isnull=False).count(), ScheduledFunction.objects.count()) == (1, 1)

    def test_goes_on_after_its_steps_failed_for_good(self, boss: User, worker: Worker) -> None:
        """As where somebody held its jobs for minutes; it stood there as running, and nobody went on with it."""
        farm.submit(2)
        created = operations.bulk.create(BulkAction.CANCEL, by=boss, filters=Filters())
        operations.bulk.begin(created.pk, by=boss)
        Bulk.objects.update(created_at=F("created_at") - timedelta(minutes=2))
        assert bulk.mend() == 0
        ScheduledFunction.objects.update(status="failed", error="x", ended_at=Now())
        assert (bulk.mend(), bulk.mend()) == (1, 0)
        assert ScheduledFunction.objects.filter(status="pending").get().args == {"bulk_id": created.pk}
        assert _to_the_end(created).changed == 2

    def test_stops_where_it_is_when_told(self, boss: User, worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bulk, "BATCH", 2)
        monkeypatch.setattr(bulk, "STEP_S", -1.0)
        farm.submit(6)
        created = operations.bulk.create(BulkAction.CANCEL, by=boss, filters=Filters())
        operations.bulk.begin(created.pk, by=boss)
        operations.bulk.step(bulk_id=created.pk)
        operations.bulk.stop(created.pk, by=boss)
        operations.bulk.step(bulk_id=created.pk)
        assert _statuses() == {"canceled": 2, "pending": 4}
        assert Bulk.objects.get().why == "stopped by boss"


class TestForgetting:
    def test_takes_what_was_over_long_ago_and_what_nobody_answered(self, boss: User, worker: Worker) -> None:
        farm.submit(1)
        made = _do(BulkAction.CANCEL, boss)
        created = operations.bulk.create(BulkAction.RETRY, by=boss, filters=Filters())
        left = []
        for hours in (23, 2, 24 * 7 - 2, 2):
            back = timedelta(hours=hours)
            Bulk.objects.update(created_at=F("created_at") - back, ended_at=F("ended_at") - back)
            farm.retain()
            left.append(set(Bulk.objects.values_list("pk", flat=True)))
        assert left == [{made.pk, created.pk}, {made.pk}, {made.pk}, set()]
        assert not BulkItem.objects.exists()


def _dying_at(batch: int) -> Callable[..., Any]:
    """A database that fails while the cursor of this batch is written."""
    seen = 0

    def die(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        nonlocal seen
        if sql.startswith('UPDATE "jobs_bulk"'):
            seen += 1
            if seen == batch:
                raise ZeroDivisionError
        return execute(sql, *rest)

    return die
