"""Whether the outbox does its work, as `doctor` and /metrics report it."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db.models.functions import Now
from django.test import Client
from prometheus_client import generate_latest
from pytest_django import Settings

from jobfarm import message_health, metrics
from jobfarm.findings import Level
from observing import numbers
from outbox import operations
from outbox.models import Endpoint, Message
from tests import farm
from tests.outbox.receivers import HERE, receiver
from tests.outbox.support import drain, due_now, endpoint

pytestmark = pytest.mark.django_db


def record(subject: str = "queue/gpu", *, due_for_s: float = 0) -> None:
    operations.record("queue.paused", subject, {})
    due = Now() - timedelta(seconds=due_for_s)
    Message.objects.filter(subject=subject, lease=None).update(next_attempt_at=due)


def sentences() -> dict[str, Level]:
    return {finding.sentence: finding.level for finding in message_health.events()}


def oldest_due_s() -> float:
    return operations.health().oldest_due_s


class TestTheOldestDueMessage:
    def test_is_one_that_nobody_sent(self) -> None:
        endpoint()
        assert oldest_due_s() == 0
        record(due_for_s=300)
        record("queue/new")
        assert 300 <= oldest_due_s() < 400
        assert any("should have been sent 30" in sentence for sentence in sentences())

    @pytest.mark.parametrize("status", ["paused", "disabled"])
    def test_is_none_of_an_endpoint_that_gets_nothing(self, status: str) -> None:
        row = endpoint()
        record(due_for_s=300)
        Endpoint.objects.filter(pk=row.pk).update(status=status)
        assert oldest_due_s() == 0

    def test_is_none_of_an_endpoint_that_is_left_alone_and_young_when_that_has_just_ended(self) -> None:
        endpoint()
        record(due_for_s=3000)
        Endpoint.objects.update(held_until=Now() + timedelta(seconds=60))
        assert oldest_due_s() == 0
        Endpoint.objects.update(held_until=Now() - timedelta(seconds=5))
        assert 5 <= oldest_due_s() < 60

    def test_is_none_that_an_earlier_one_of_its_subject_holds_back(self) -> None:
        endpoint()
        record("job/1", due_for_s=300)
        Message.objects.update(next_attempt_at=Now() + timedelta(hours=2))  # it failed, and is retried
        operations.record("queue.resumed", "job/1", {})
        later = Message.objects.latest("pk")
        Message.objects.filter(pk=later.pk).update(next_attempt_at=Now() - timedelta(seconds=300))
        assert oldest_due_s() == 0

    def test_is_none_of_an_endpoint_with_requests_under_way(self) -> None:
        """Its receiver is slow; the farm is not."""
        endpoint()
        for number in range(30):
            record(f"queue/{number}", due_for_s=300)
        Message.objects.filter(subject="queue/0").update(
            lease="00000000-0000-0000-0000-000000000001", next_attempt_at=Now() + timedelta(seconds=30)
        )
        assert oldest_due_s() == 0
        Message.objects.filter(subject="queue/0").update(next_attempt_at=Now() - timedelta(seconds=1))
        assert oldest_due_s() >= 300  # whose sender was killed


class TestDoctor:
    def test_has_nothing_against_an_outbox_that_works(self) -> None:
        endpoint()
        record()
        assert sentences() == {}

    def test_names_endpoints_that_the_farm_paused_and_none_that_people_did(self) -> None:
        root = User.objects.create_superuser("root")
        by_farm, by_hand = endpoint(), endpoint("https://two.example/")
        Endpoint.objects.filter(pk=by_farm.pk).update(status="paused", failing_since=Now())
        Endpoint.objects.filter(pk=by_hand.pk).update(failing_since=Now())
        operations.pause(by_hand.pk, by=root)
        [(sentence, level)] = sentences().items()
        assert sentence.endswith("because every attempt failed: 1.")
        assert level is Level.WARNING
        operations.resume(by_farm.pk, by=root)
        assert sentences() == {}

    def test_names_endpoints_whose_secret_cannot_be_opened(self, settings: Settings) -> None:
        endpoint()
        disabled = endpoint("https://two.example/")
        Endpoint.objects.filter(pk=disabled.pk).update(status="disabled")
        settings.SECRET_KEY = "another"
        [(sentence, level)] = sentences().items()
        assert sentence.endswith("nothing is sent to them: 1.")
        assert level is Level.ERROR


def scraped(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> str:
    settings.METRICS_TOKEN = "token"
    monkeypatch.setattr(metrics, "FARM", metrics.Farm())
    return Client().get("/metrics", headers={"Authorization": "Bearer token"}).content.decode()


def test_metrics_have_what_the_outbox_does(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint(owner=None)
    record(due_for_s=300)
    record("queue/dead")
    dead = {"status": "dead", "next_attempt_at": None, "ended_at": Now()}
    Message.objects.filter(subject="queue/dead").update(**dead)
    stopped = endpoint("https://two.example/", owner=farm.user("ann"))
    Endpoint.objects.filter(pk=stopped.pk).update(status="paused", failing_since=Now())
    failing = endpoint("https://three.example/")
    Endpoint.objects.filter(pk=failing.pk).update(failing_since=Now() - timedelta(hours=1))
    text = scraped(settings, monkeypatch)
    assert float(text.partition("\njobfarm_outbox_endpoint_failing_seconds ")[2].split()[0]) >= 3600
    assert 'jobfarm_outbox_messages{status="waiting"} 1.0' in text
    assert 'jobfarm_outbox_messages{status="dead"} 1.0' in text
    assert float(text.partition("\njobfarm_outbox_oldest_due_seconds ")[2].split()[0]) >= 300
    assert "jobfarm_outbox_endpoints_paused 1.0" in text
    assert "jobfarm_outbox_endpoints_unreadable 0.0" in text


@pytest.mark.django_db(transaction=True)
def test_a_sender_counts_its_attempts_by_what_they_came_to(settings: Settings) -> None:
    settings.OUTBOX = {**settings.OUTBOX, "ALLOWED_NETWORKS": HERE}
    before = counted()
    with receiver(status=500) as there:
        endpoint(there.url())
        operations.record("queue.paused", "queue/a", {})
        drain()
        for there.status in (200, 410):
            due_now()
            drain()
            operations.record("queue.paused", "queue/b", {})
    assert {outcome: counted()[outcome] - before[outcome] for outcome in before} == {
        "delivered": 1, "failed": 1, "gone": 1,
    }  # fmt: skip


def counted() -> dict[str, float]:
    lines = generate_latest(numbers.JANITOR).decode().splitlines()
    return {
        outcome: float(line.rpartition(" ")[2])
        for line in lines
        for outcome in ("delivered", "failed", "gone")
        if line.startswith(f'jobfarm_outbox_attempts_total{{outcome="{outcome}"}}')
    }


@pytest.mark.django_db(transaction=True)
class TestAnEndpointThatTakesNothing:
    @pytest.fixture
    def failing(self, settings: Settings) -> Endpoint:
        """One whose first attempt failed eleven minutes ago."""
        settings.OUTBOX = {**settings.OUTBOX, "ALLOWED_NETWORKS": HERE}
        with receiver(status=500) as there:
            row = endpoint(there.url(), name="theirs")
            record()
            drain()
        Endpoint.objects.update(failing_since=Now() - timedelta(minutes=11))
        row.refresh_from_db()
        return row

    def test_is_failing_and_not_active(self, failing: Endpoint, boss: User, client: Client) -> None:
        assert (failing.status, failing.shown_status, failing.last_failure) == ("active", "failing", "It answered 500.")
        client.force_login(boss)
        for address in ("/outbox/", f"/outbox/{failing.pk}/", "/admin/outbox/endpoint/"):
            page = client.get(address).content.decode()
            assert "failing" in page
            assert "It answered 500." in page
            is_a_filter = "admin" in address  # of which one is by active
            assert is_a_filter or ">active<" not in page.replace("\n", "").replace(" ", "")

    def test_is_named_by_doctor_after_ten_minutes(self, failing: Endpoint) -> None:
        [finding] = [one for one in message_health.events() if "take nothing" in one.sentence]
        assert (finding.level, "theirs since " in (finding.remedy or "")) == (Level.WARNING, True)
        assert (finding.remedy or "").endswith("UTC: It answered 500.")
        Endpoint.objects.update(failing_since=Now() - timedelta(minutes=9))
        assert not any("take nothing" in sentence for sentence in sentences())

    def test_is_well_again_when_it_took_one(self, failing: Endpoint) -> None:
        with receiver() as there:
            Endpoint.objects.update(url=there.url())
            due_now()
            drain()
        failing.refresh_from_db()
        assert (failing.shown_status, failing.last_failure, failing.failing_since) == ("active", "", None)
