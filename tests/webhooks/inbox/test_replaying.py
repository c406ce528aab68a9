"""Replays by a person: one, and all that match, at a pace."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User

from postgres import clock
from scheduling import operations as scheduling
from scheduling.models import Due
from tests.webhooks.inbox.support import new, pass_time, pending, receive
from webhooks.domain.deliveries import Filter, Source, Status
from webhooks.errors import CannotReplay, NotFound
from webhooks.handlers.registry import Event
from webhooks.models import Delivery, DeliveryAttempt
from webhooks.operations import count_matching, drain_sandbox_queue, keep, replay, replay_matching
from webhooks.queries.pages import Replay

pytestmark = pytest.mark.usefixtures("transactional_db")

Register = Callable[[str, str, Any], None]


def dead(handle: Register, *ids: str) -> list[int]:
    """Deliveries that failed five times, and whose handler was mended since."""

    def fails(_: Event) -> None:
        raise RuntimeError("no luck")

    handle("github", "probe", fails)
    kept = [one.delivery for one in keep([new(delivery_id=one) for one in ids])]
    for _ in range(5):
        pass_time()
    assert set(Delivery.objects.filter(pk__in=kept).values_list("status", flat=True)) == {"dead"}
    handle("github", "probe", lambda _: None)
    return kept


class TestReplayingOne:
    def test_processes_it_again_keeps_its_history_and_leaves_a_line(self, handle: Register) -> None:
        person = User.objects.create_user("ada")
        [pk] = dead(handle, "d1")
        again = replay(pk, by=person)
        assert (again.status, again.attempts, again.note) == ("received", 0, None)
        assert scheduling.run_due() == 1
        again.refresh_from_db()
        assert (again.status, again.attempts, again.tries) == ("processed", 1, 6)
        outcomes = DeliveryAttempt.objects.order_by("number").values_list("number", "outcome")
        assert list(outcomes) == [*((n, "failed") for n in range(1, 6)), (6, "processed")]
        line = LogEntry.objects.get()
        assert (line.user_id, line.object_id) == (person.pk, str(pk))
        assert line.get_change_message().endswith("which was dead")

    def test_may_fail_and_has_five_attempts_again(self, handle: Register) -> None:
        [pk] = dead(handle, "d1")

        def fails(_: Event) -> None:
            raise RuntimeError("still no luck")

        handle("github", "probe", fails)
        replay(pk)
        for _ in range(5):
            assert Delivery.objects.get().status != "dead"
            pass_time()
        delivery = Delivery.objects.get()
        assert (delivery.status, delivery.attempts, delivery.tries) == ("dead", 5, 10)

    def test_does_away_with_the_attempt_that_was_to_come(self, handle: Register) -> None:
        """It was scheduled before, and would use up one of the five too early."""

        def fails(_: Event) -> None:
            raise RuntimeError("no luck")

        handle("github", "probe", fails)
        delivery = receive()
        scheduling.run_due()
        [earlier] = pending()
        replay(delivery.pk)
        scheduling.run_due()
        assert Delivery.objects.get().tries == 2
        Due.objects.filter(function_id=earlier.pk).update(next_at=clock.now(), run_at=clock.now())
        assert scheduling.run_due() == 1
        delivery.refresh_from_db()
        assert (delivery.status, delivery.attempts, delivery.tries) == ("failed", 1, 2)
        assert len(pending()) == 1

    def test_is_refused_for_what_waits_cannot_be_read_or_is_not_there(self) -> None:
        delivery = receive()
        with pytest.raises(CannotReplay, match="it waits to be processed already"):
            replay(delivery.pk)
        Delivery.objects.update(status="rejected", note="x", ended_at=delivery.received_at)
        with pytest.raises(CannotReplay, match="its body cannot be read"):
            replay(delivery.pk)
        with pytest.raises(NotFound):
            replay(delivery.pk + 1)
        assert len(pending()) == 1
        assert not LogEntry.objects.exists()

    def test_of_telemetry_waits_for_the_drain(self) -> None:
        given = {"source": Source.SANDBOX_TELEMETRY, "event_type": "batch"}
        delivery = receive([{"outcome": "ok"}], **given)
        drain_sandbox_queue()
        replay(delivery.pk)
        assert pending() == []
        assert drain_sandbox_queue() == 1
        delivery.refresh_from_db()
        assert (delivery.status, delivery.tries) == ("processed", 2)


def matched_of(begun: Replay | None) -> int:
    return 0 if begun is None else begun.matched


class TestReplayingMany:
    def test_takes_a_batch_pauses_and_goes_on_oldest_first(
        self, handle: Register, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("webhooks.operations.attempts.BATCH", 2)
        person = User.objects.create_superuser("ada")
        seen: list[int] = []
        ids = dead(handle, "d1", "d2", "d3", "d4", "d5")
        handle("github", "probe", lambda event: seen.append(event.pk))
        wanted = Filter(statuses=(Status.DEAD,))
        assert count_matching(wanted) == matched_of(replay_matching(wanted, by=person)) == 5
        assert seen == []

        scheduling.run_due()  # the first batch; what it scheduled for now runs with the next call
        scheduling.run_due()
        assert seen == ids[:2]
        [further] = pending()
        assert timedelta(0) < further.run_at - clock.now() <= timedelta(seconds=1)
        for _ in range(4):
            pass_time()
        assert seen == ids
        assert pending() == []
        line = LogEntry.objects.get()
        assert line.get_change_message() == "Replays 5 deliveries up to this one: status dead"

    def test_leaves_out_what_came_since_or_does_not_match_any_more(
        self, handle: Register, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("webhooks.operations.attempts.BATCH", 1)
        first, second, third = dead(handle, "d1", "d2", "d3")
        assert matched_of(replay_matching(Filter(statuses=(Status.DEAD,)))) == 3
        Delivery.objects.filter(pk=second).update(status="processed")
        late = receive(delivery_id="d4").pk
        Delivery.objects.filter(pk=late).update(status="dead", note="x", ended_at=clock.now())
        while pending():
            pass_time()
        tries = dict(Delivery.objects.values_list("pk", "tries"))
        assert tries == {first: 6, second: 5, third: 6, late: 0}

    @pytest.mark.parametrize("loss", ["the account", "the right"])
    def test_of_whoever_may_not_any_more_goes_no_further_and_says_so(
        self, handle: Register, monkeypatch: pytest.MonkeyPatch, loss: str
    ) -> None:
        monkeypatch.setattr("webhooks.operations.attempts.BATCH", 1)
        person = User.objects.create_superuser("ada")
        first, second = dead(handle, "d1", "d2")
        begun = replay_matching(Filter(statuses=(Status.DEAD,)), by=person)
        assert begun is not None
        scheduling.run_due()
        User.objects.filter(pk=person.pk).update(**{"is_active" if loss == "the account" else "is_superuser": False})
        while pending():
            pass_time()
        tries = dict(Delivery.objects.values_list("pk", "tries"))
        assert tries == {first: 6, second: 5}
        over = Replay.find(begun.first)
        assert over is not None
        why = "account that started it is no longer active" if loss == "the account" else "may replay no deliveries"
        assert (over.is_over, over.status, over.handled, why in (over.error or "")) == (True, "failed", 1, True)

    def test_of_nothing_schedules_nothing(self) -> None:
        receive()
        Delivery.objects.update(status="rejected", note="x", ended_at=clock.now())
        scheduled = len(pending())
        assert replay_matching(Filter()) is None
        assert len(pending()) == scheduled
        assert not LogEntry.objects.exists()
