"""The crons of the inbox, run as crons run: each does its work, mends what fell through, and says what it did."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from jobs.models import HealthScore
from jobs.operations.scores import keep_scores, score_yesterday
from scheduling import operations as scheduling
from scheduling.models import Due, ScheduledFunction
from scheduling.operations import retention
from tests import farm
from tests.webhooks.inbox.support import pass_time, pending, receive
from webhooks.domain.deliveries import Source
from webhooks.handlers.registry import Event
from webhooks.models import Activity, Delivery, DeliveryAttempt, Refusal
from webhooks.operations import drain_sandbox_queue, reconcile
from webhooks.operations.maintenance import reschedule_stuck

pytestmark = pytest.mark.usefixtures("transactional_db")

Register = Callable[[str, str, Any], None]
HOUR = timedelta(hours=1)


@pytest.fixture
def jobs(transactional_db: None) -> Iterator[None]:
    """For tests that make jobs: takes them away again."""
    yield
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE jobs_job, jobs_worker, jobs_attempt, jobs_live, jobs_outcome CASCADE")
        cursor.execute("DELETE FROM jobs_queue WHERE name = 'work'; DELETE FROM jobs_kind WHERE name = 'work'")


def run(function: Any) -> Any:
    """What a function comes to that the scheduler runs, with its guards."""
    row = scheduling.run_after(0, function)
    while pending():
        assert scheduling.run_due() > 0
    row.refresh_from_db()
    assert row.status == "success", row.error
    return row.result


def age(delivery: Delivery, by: timedelta) -> None:
    """Let it have come so much earlier."""
    earlier = delivery.received_at - by
    ended = delivery.ended_at and delivery.ended_at - by
    Delivery.objects.filter(pk=delivery.pk).update(received_at=earlier, ended_at=ended)


def lose_runs() -> None:
    """As if somebody had deleted what was scheduled."""
    Due.objects.all().delete()
    ScheduledFunction.objects.filter(ended_at=None).update(status="canceled", ended_at=datetime.now(UTC))


def telemetry(number: int, **options: Any) -> Delivery:
    given = {"source": Source.SANDBOX_TELEMETRY, "event_type": "batch", "delivery_id": f"m{number}"}
    return receive([{"outcome": "ok", "n": number}], **given, **options)


class TestReconciliation:
    def test_schedules_what_waits_without_a_run_and_leaves_the_others_alone(self) -> None:
        late, young = receive(delivery_id="late"), receive(delivery_id="young")
        lose_runs()
        awaited = receive(delivery_id="awaited")
        drained = telemetry(1)
        for delivery in (late, awaited):
            age(delivery, HOUR)
        age(drained, timedelta(minutes=5))
        assert reschedule_stuck() == [late.pk]
        assert reschedule_stuck() == []
        scheduling.run_due()
        found = dict(Delivery.objects.values_list("pk", "status"))
        assert found == {late.pk: "ignored", young.pk: "received", awaited.pk: "ignored", drained.pk: "received"}

    @pytest.mark.parametrize("source", [Source.GITHUB, Source.SANDBOX_TELEMETRY])
    def test_schedules_a_next_attempt_that_was_lost(self, handle: Register, source: Source) -> None:
        def fails(_: Event) -> None:
            raise RuntimeError("no luck")

        handle(source, "probe", fails)
        delivery = receive({"n": 1}, source=source)
        drain_sandbox_queue()
        scheduling.run_due()
        lose_runs()
        Delivery.objects.filter(pk=delivery.pk, status="failed").update(next_attempt_at=datetime.now(UTC) - HOUR)
        assert reschedule_stuck() == [delivery.pk]
        scheduling.run_due()
        assert Delivery.objects.get().attempts == 2

    def test_counts_a_run_that_took_its_process_with_it_as_a_failed_attempt(self) -> None:
        """So that it ends in the dead letters, and does not kill a process every five minutes for ever."""
        delivery = receive()
        age(delivery, HOUR)
        Due.objects.all().delete()
        died = {"status": "failed", "error": "It kills its process.", "ended_at": datetime.now(UTC)}
        ScheduledFunction.objects.update(**died)
        assert reschedule_stuck() == [delivery.pk]
        delivery.refresh_from_db()
        assert (delivery.status, delivery.attempts, delivery.note) == ("failed", 1, "It kills its process.")
        attempt = DeliveryAttempt.objects.get()
        assert (attempt.outcome, attempt.error_class) == ("failed", "scheduling.errors.KillsItsProcess")
        assert [run.args["delivery"] for run in pending()] == [delivery.pk]

    def test_keeps_telemetry_that_kills_its_process_from_being_the_first_of_each_drain_for_ever(self) -> None:
        """The cron takes the oldest first: nothing behind that would ever be processed."""
        killing, other = telemetry(1), telemetry(2)
        age(killing, HOUR)
        assert reschedule_stuck() == [killing.pk]
        died = {"status": "failed", "error": "It kills its process.", "ended_at": datetime.now(UTC)}
        ScheduledFunction.objects.filter(pk__in=[run.pk for run in pending()]).update(**died)
        Due.objects.all().delete()
        assert reschedule_stuck() == [killing.pk]
        assert drain_sandbox_queue() == 1
        statuses = dict(Delivery.objects.values_list("pk", "status"))
        assert statuses == {killing.pk: "failed", other.pk: "processed"}

    def test_finds_a_lost_run_behind_any_number_that_wait_for_theirs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("webhooks.operations.maintenance.STUCK_BATCH", 1)
        lost = receive(delivery_id="lost")
        lose_runs()
        Delivery.objects.filter(pk=lost.pk).update(id=lost.pk + 100)
        age(receive(delivery_id="awaited"), HOUR)
        age(Delivery.objects.get(delivery_id="lost"), HOUR)
        assert reschedule_stuck() == [lost.pk + 100]

    @pytest.mark.usefixtures("jobs")
    def test_ends_jobs_past_their_lease_and_reports(self) -> None:
        farm.kind(retry_when_lost=False)
        farm.submit(1)
        claimed = farm.claim_one(farm.worker())
        farm.expire_lease(claimed)
        delivery = receive()
        age(delivery, HOUR)
        lose_runs()

        outcome = run(reconcile)

        assert outcome == {"deliveries_without_run": 1, "jobs_without_end": 1, "deliveries": [delivery.pk]}
        assert farm.status(claimed) == "timed_out"
        assert Delivery.objects.get().status == "ignored"


class TestHealthScores:
    def test_are_kept_by_day_for_each_source(self, handle: Register) -> None:
        def fails(_: Event) -> None:
            raise RuntimeError("no luck")

        handle("github", "broken", fails)
        receive(delivery_id="good")
        dead = receive(delivery_id="bad", event_type="broken")
        for _ in range(5):
            pass_time()
        receive(delivery_id="waits")
        dead.refresh_from_db()
        assert dead.status == "dead"
        keep_scores(day=datetime.now(UTC).date().isoformat())
        shown = HealthScore.objects.filter(subject="source").values_list(
            "name", "ended", "succeeded", "score", "backlog"
        )
        rows = {name: tuple(numbers) for name, *numbers in shown}
        assert (rows["github"], rows["stripe"]) == ((2, 1, 0.5, 1), (0, 0, None, 0))
        assert set(rows) == set(Source)
        assert HealthScore.objects.get(name="github").latency_p95_s is not None

    def test_are_of_yesterday_when_the_cron_fires(self) -> None:
        delivery = receive()
        scheduling.run_due()
        delivery.refresh_from_db()
        age(delivery, timedelta(days=1))
        assert run(score_yesterday) == HealthScore.objects.count() > 0
        score = HealthScore.objects.get(name="github")
        assert (score.day, score.ended) == (datetime.now(UTC).date() - timedelta(days=1), 1)


class TestTheDrain:
    def test_processes_all_that_waits_in_batches_oldest_first(
        self, handle: Register, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("webhooks.operations.maintenance.DRAIN_BATCH", 3)
        seen: list[int] = []
        handle("sandbox_telemetry", "batch", lambda event: seen.append(event.pk))
        waiting = [telemetry(number).pk for number in range(8)]
        other = receive(delivery_id="not telemetry")
        lose_runs()
        assert run(drain_sandbox_queue) == 8
        assert seen == waiting
        assert Delivery.objects.get(status="received") == other

    def test_is_not_held_up_by_one_that_fails(self, handle: Register) -> None:
        def fails_once(event: Event) -> None:
            if event.body["items"][0]["n"] == 1 and DeliveryAttempt.objects.count() == 1:
                raise RuntimeError("no luck")

        handle("sandbox_telemetry", "batch", fails_once)
        for number in range(3):
            telemetry(number)
        assert drain_sandbox_queue() == 3
        statuses = Delivery.objects.order_by("pk").values_list("status", flat=True)
        assert list(statuses) == ["processed", "failed", "processed"]
        pass_time()
        assert set(statuses.all()) == {"processed"}

    def test_ends_before_the_next_begins(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("webhooks.operations.maintenance.BUDGET_S", 0.0)
        telemetry(1)
        assert drain_sandbox_queue() == 0
        assert Delivery.objects.get().status == "received"


class TestRetention:
    @pytest.mark.parametrize(
        ("source", "days", "is_kept"),
        [("github", 89, True), ("github", 91, False), ("sandbox_hooks", 13, True), ("sandbox_hooks", 15, False)],
    )
    def test_forgets_what_ended_well_long_ago(self, source: str, days: int, is_kept: bool) -> None:
        delivery = receive(source=Source(source))
        scheduling.run_due()
        delivery.refresh_from_db()
        age(delivery, timedelta(days=days))
        assert sum(run(scheduling.retain).values()) == (0 if is_kept else 1)
        assert Delivery.objects.exists() == DeliveryAttempt.objects.exists() == is_kept

    @pytest.mark.parametrize("status", ["received", "failed", "dead"])
    def test_keeps_what_nobody_has_seen_to(self, status: str) -> None:
        delivery = receive()
        due = datetime.now(UTC) if status == "failed" else None
        ended = None if status == "received" else delivery.received_at
        Delivery.objects.update(status=status, note="x", ended_at=ended, next_attempt_at=due)
        delivery.refresh_from_db()
        age(delivery, timedelta(days=1000))
        lose_runs()
        assert scheduling.retain() == {}
        assert Delivery.objects.get().status == status

    def test_goes_batch_by_batch_and_takes_counters_and_activity_along(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(retention._declared, "deliveries", (retention._declared["deliveries"][0], 2))
        for number in range(5):
            receive(delivery_id=f"d{number}")
        scheduling.run_due()
        long_ago = datetime.now(UTC) - timedelta(days=100)
        Delivery.objects.update(received_at=long_ago)
        for hour in (long_ago, datetime.now(UTC)):
            Refusal.objects.create(source="github", reason="bad_signature", hour=hour, count=1, last_at=hour)
        Activity.objects.create(source="github", delivery_id=1, n=0, at=long_ago, verb="pushed")
        assert run(scheduling.retain)["deliveries"] == 5
        assert [row.hour > long_ago for row in Refusal.objects.all()] == [True]
        assert not Activity.objects.exists()
