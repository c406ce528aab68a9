"""Processing: once, with its effects; and what becomes of a delivery that fails."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest
from django.contrib.auth.models import Group
from django.db import DatabaseError, connection, transaction

from postgres.connections import released
from scheduling import operations as scheduling
from scheduling.models import ScheduledFunction
from tests import farm
from tests.unprintable import Unprintable
from tests.webhooks.inbox.support import keep_one, new, pass_time, pending, reading_by_index, receive, vacuum
from webhooks.domain.deliveries import Source
from webhooks.errors import WebhooksError
from webhooks.handlers.registry import Event
from webhooks.models import Delivery, DeliveryAttempt
from webhooks.operations import Verdict, keep, process
from webhooks.queries import inbox

pytestmark = pytest.mark.usefixtures("transactional_db")
Register = Callable[[str, str, Any], None]


def attempts(delivery: Delivery) -> list[tuple[int, str, str | None]]:
    return list(
        DeliveryAttempt.objects.filter(delivery=delivery).order_by("number").values_list("number", "outcome", "error")
    )


class TestADelivery:
    def test_is_handed_to_its_handler_as_an_event(self, handle: Register) -> None:
        events: list[Event] = []
        handle("github", "probe", events.append)
        at = datetime(2026, 11, 20, tzinfo=UTC)
        delivery = receive({"a": ["Ærø", 7]}, occurred_at=at)
        assert scheduling.run_due() == 1
        delivery.refresh_from_db()
        assert events == [
            Event(
                source="github", type="probe", delivery_id="d-1", body={"a": ["Ærø", 7]}, occurred_at=at,
                received_at=delivery.received_at, pk=delivery.pk,
            )
        ]  # fmt: skip
        assert (delivery.status, delivery.attempts, delivery.tries, delivery.note) == ("processed", 1, 1, None)
        assert delivery.ended_at is not None
        assert attempts(delivery) == [(1, "processed", None)]

    @pytest.mark.parametrize(
        ("event_type", "note"),
        [("never_heard_of", "nothing handles this type of event"), ("", "it does not say of what type it is")],
    )
    def test_of_an_unknown_type_is_ignored_with_a_word_why(self, event_type: str, note: str) -> None:
        delivery = receive(event_type=event_type)
        scheduling.run_due()
        delivery.refresh_from_db()
        assert (delivery.status, delivery.note) == ("ignored", note)

    def test_is_ignored_when_its_handler_says_so(self, handle: Register) -> None:
        handle("github", "probe", lambda _: "it is older than what is known")
        delivery = receive()
        scheduling.run_due()
        delivery.refresh_from_db()
        assert (delivery.status, delivery.note) == ("ignored", "it is older than what is known")
        assert attempts(delivery) == [(1, "ignored", None)]

    def test_is_processed_once_however_often_it_is_scheduled(self, handle: Register) -> None:
        calls: list[Event] = []
        handle("github", "probe", calls.append)
        delivery = receive()
        for _ in range(3):
            scheduling.run_after(0, process, delivery=delivery.pk)
        assert scheduling.run_due() == 4
        assert len(calls) == 1
        assert process(delivery=delivery.pk) is None
        assert process(delivery=delivery.pk + 1) is None

    def test_is_found_where_it_lies_now(self, handle: Register) -> None:
        """A duplicate moves the row; the run that was scheduled before knows the old place."""
        handle("github", "probe", lambda _: None)
        delivery = receive()
        assert keep_one().verdict is Verdict.DUPLICATE
        scheduling.run_due()
        delivery.refresh_from_db()
        assert (delivery.status, delivery.duplicates) == ("processed", 1)

    def test_of_telemetry_is_a_list_of_items_and_waits_for_the_drain(self, handle: Register) -> None:
        events: list[Event] = []
        handle("sandbox_telemetry", "batch", events.append)
        for number, document in enumerate([[{"a": 1}], {"a": 2}, []]):
            receive(document, source=Source.SANDBOX_TELEMETRY, delivery_id=f"m{number}", event_type="batch")
        assert pending() == []
        for delivery in Delivery.objects.order_by("pk"):
            process(delivery=delivery.pk)
        assert [event.body for event in events] == [{"items": [{"a": 1}]}, {"items": [{"a": 2}]}, {"items": []}]

    def test_can_be_found_by_its_words_with_nuls_and_all(self, handle: Register) -> None:
        handle("github", "probe", lambda _: None)
        receive(body=b'{"text": "needle\\u0000 haystack \\ud800"}')
        scheduling.run_due()
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM webhooks_delivery WHERE search @@ to_tsquery('simple', 'haystack')")
            assert cursor.fetchone() == (1,)


class TestAFailure:
    def test_takes_its_writes_with_it_and_is_kept_with_its_next_attempt(self, handle: Register) -> None:
        def broken(event: Event) -> None:
            Group.objects.create(name=f"of {event.delivery_id}")
            raise RuntimeError("out of \x00 luck \ud800")

        handle("github", "probe", broken)
        delivery = receive()
        scheduling.run_due()
        delivery.refresh_from_db()
        assert not Group.objects.exists()
        assert (delivery.status, delivery.note) == ("failed", "RuntimeError: out of ␀ luck ?")
        assert delivery.next_attempt_at is not None
        assert delivery.ended_at is not None
        wait = delivery.next_attempt_at - delivery.ended_at
        assert timedelta(seconds=53) <= wait <= timedelta(seconds=61)
        [attempt] = DeliveryAttempt.objects.all()
        assert attempt.error_class == "builtins.RuntimeError"
        assert "in broken" in (attempt.traceback or "")
        [run] = pending()
        assert abs(run.run_at - delivery.next_attempt_at) < timedelta(seconds=1)
        assert {row.status for row in ScheduledFunction.objects.all()} == {"success", "pending"}

    def test_is_tried_five_times_and_then_dead(self, handle: Register) -> None:
        class OutOfService(WebhooksError):
            """It is out of service."""

        def refuse(_: Event) -> None:
            raise OutOfService

        handle("github", "probe", refuse)
        delivery = receive()
        waits: list[float] = []
        for _ in range(4):
            pass_time()
            delivery.refresh_from_db()
            assert delivery.next_attempt_at is not None
            assert delivery.ended_at is not None
            waits.append((delivery.next_attempt_at - delivery.ended_at).total_seconds() / 60)
        pass_time()
        delivery.refresh_from_db()
        sentence = "It is out of service."
        assert [round(wait / exact, 1) for wait, exact in zip(waits, [1, 4, 16, 60], strict=True)] == [
            pytest.approx(1.0, abs=0.11)
        ] * 4
        assert max(waits) <= 60
        assert (delivery.status, delivery.note, delivery.next_attempt_at) == ("dead", sentence, None)
        assert attempts(delivery) == [(number, "failed", sentence) for number in range(1, 6)]
        assert set(DeliveryAttempt.objects.values_list("traceback", flat=True)) == {None}
        assert pending() == []

    def test_heals_when_its_cause_is_gone(self, handle: Register) -> None:
        calls: list[int] = []

        def heals(_: Event) -> None:
            calls.append(1)
            if len(calls) < 3:
                raise RuntimeError("not yet")

        handle("github", "probe", heals)
        delivery = receive()
        for _ in range(4):
            pass_time()
        delivery.refresh_from_db()
        assert (delivery.status, delivery.attempts, delivery.note) == ("processed", 3, None)
        assert [outcome for _, outcome, _ in attempts(delivery)] == ["failed", "failed", "processed"]

    @pytest.mark.parametrize(
        "statement",
        ["SELECT 1 / 0", "INSERT INTO auth_group (name) VALUES ('a'), ('a')", "SELECT * FROM nowhere", "SELECT chr(0)"],
    )
    def test_of_a_statement_is_a_failure_like_others(self, handle: Register, statement: str) -> None:
        def broken(_: Event) -> None:
            with connection.cursor() as cursor:
                cursor.execute(statement)

        handle("github", "probe", broken)
        delivery = receive()
        scheduling.run_due()
        delivery.refresh_from_db()
        assert (delivery.status, delivery.attempts) == ("failed", 1)

    def test_without_a_text_is_a_failure_like_others(self, handle: Register) -> None:
        handle("github", "probe", mock.Mock(side_effect=Unprintable))
        delivery = receive()
        scheduling.run_due()
        delivery.refresh_from_db()
        assert (delivery.status, delivery.attempts) == ("failed", 1)

    def test_is_no_collision_that_runs_again_at_once(self, handle: Register) -> None:
        calls: list[int] = []

        def collides_once(_: Event) -> None:
            calls.append(1)
            if len(calls) == 1:
                with connection.cursor() as cursor:
                    cursor.execute("DO $$ BEGIN RAISE EXCEPTION 'collided' USING ERRCODE = '40001'; END $$")

        handle("github", "probe", collides_once)
        delivery = receive()
        scheduling.run_due()
        assert len(calls) == 2
        assert attempts(delivery) == [(1, "processed", None)]

    def test_of_a_body_that_cannot_be_read_any_more_is_one_too(self) -> None:
        """As after a restore from a backup that lost bytes."""
        delivery = receive(body=b"{")
        scheduling.run_due()
        delivery.refresh_from_db()
        assert delivery.status == "failed"
        assert "not JSON" in (delivery.note or "")


class TestManyAtOnce:
    def test_do_not_collide_when_they_are_apart(self, handle: Register) -> None:
        """A collision would call the handler again: 300 deliveries in four threads, 300 calls."""
        vacuum(Delivery)
        calls: list[int] = []
        handle("github", "probe", lambda event: calls.append(event.pk))
        kept = keep([new(delivery_id=f"d-{number}") for number in range(300)])
        runs = [(run.args["delivery"], run.args["row_pointer"]) for run in pending()]
        assert len(runs) == len(kept) == 300

        def run(given: tuple[int, str]) -> str | None:
            with released(), reading_by_index():
                return process(delivery=given[0], row_pointer=given[1])

        with ThreadPoolExecutor(4) as pool:
            assert set(pool.map(run, runs)) == {"processed"}
        assert sorted(calls) == sorted(delivery for delivery, _ in runs)

    def test_of_one_delivery_leave_one_effect(self, handle: Register) -> None:
        def probe(event: Event) -> None:
            Group.objects.create(name=event.delivery_id)

        handle("github", "probe", probe)
        delivery = receive()
        Group.objects.all().delete()

        def run(_: int) -> str | None:
            with released():
                return process(delivery=delivery.pk)

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(run, range(8)))
        assert sorted(map(str, answers)) == ["None"] * 7 + ["processed"]
        assert Group.objects.count() == 1
        Group.objects.all().delete()


class TestStoring:
    def test_twenty_at_once_is_one_row_one_run_and_nineteen_duplicates(self) -> None:
        def send(_: int) -> Verdict:
            with released():
                return keep_one().verdict

        with ThreadPoolExecutor(20) as pool:
            verdicts = list(pool.map(send, range(20)))
        assert sorted(verdicts) == [Verdict.DUPLICATE] * 19 + [Verdict.RECEIVED]
        delivery = Delivery.objects.get()
        assert delivery.duplicates == 19
        assert len(pending()) == 1

    def test_twins_in_one_batch_are_one_delivery(self) -> None:
        verdicts = [kept.verdict for kept in keep([new(), new(delivery_id="d-2"), new()])]
        assert verdicts == [Verdict.RECEIVED, Verdict.RECEIVED, Verdict.DUPLICATE]
        assert len(pending()) == 2

    @pytest.mark.parametrize("source", [Source.GITHUB, Source.JIRA, Source.CONFLUENCE])
    def test_a_body_under_another_unsigned_id_is_a_duplicate(self, source: Source) -> None:
        first = keep_one({"a": 1}, source=source, delivery_id="one")
        second = keep_one({"a": 1}, source=source, delivery_id="two")
        assert (second.verdict, second.delivery) == (Verdict.DUPLICATE, first.delivery)

    def test_a_body_under_another_signed_id_is_another_delivery(self) -> None:
        kept = [keep_one({"a": 1}, source=Source.SANDBOX_HOOKS, delivery_id=one) for one in ("one", "two")]
        assert [one.verdict for one in kept] == [Verdict.RECEIVED] * 2

    @pytest.mark.parametrize(("status", "runs"), [("failed", 1), ("dead", 1), ("processed", 0), ("ignored", 0)])
    def test_one_that_had_failed_or_died_is_processed_again(self, status: str, runs: int) -> None:
        delivery = receive()
        ScheduledFunction.objects.update(status="canceled", ended_at=datetime.now(UTC))
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM scheduling_due")
        due = datetime.now(UTC) if status == "failed" else None
        Delivery.objects.update(status=status, note="x", attempts=5, ended_at=datetime.now(UTC), next_attempt_at=due)
        assert keep_one().verdict is Verdict.DUPLICATE
        delivery.refresh_from_db()
        assert len(pending()) == runs
        assert (delivery.status, delivery.attempts) == (("received", 0) if runs else (status, 5))

    @pytest.mark.parametrize(("statement", "before"), [(inbox.keep, ""), (inbox.count_duplicates, "aza")])
    def test_in_opposite_orders_ends_in_no_deadlock(self, statement: Callable[..., Any], before: str) -> None:
        """Of those that are there the rows lie in the order in which the other one names them."""
        for delivery_id in before:
            keep_one(delivery_id=delivery_id)

        def keep_both() -> None:
            with released(), transaction.atomic():
                statement([new(delivery_id="z"), new(delivery_id="a")])

        with ThreadPoolExecutor(1) as pool, transaction.atomic():
            statement([new(delivery_id="a")])
            other = pool.submit(keep_both)
            farm.until(lambda: farm.waiting_for_locks() == 1)
            statement([new(delivery_id="z")])
        other.result()
        assert Delivery.objects.count() == 2

    def test_stores_nothing_that_cannot_be_scheduled(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE scheduling_due RENAME TO elsewhere")
        try:
            with pytest.raises(DatabaseError):
                keep_one()
        finally:
            with connection.cursor() as cursor:
                cursor.execute("ALTER TABLE elsewhere RENAME TO scheduling_due")
        assert not Delivery.objects.exists()
        assert not ScheduledFunction.objects.exists()
