"""Messages on their way: signed, in order, repeated, given up, and what that says of their endpoints."""

import json
import ssl
from datetime import datetime, timedelta
from typing import Any

import pytest
import svix.webhooks
import trustme
from django.contrib.auth.models import User
from django.core import mail
from django.db.models.functions import Now
from pytest_django import Settings
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from outbox import operations, queries
from outbox.domain import addresses
from outbox.domain.messages import GONE
from outbox.models import Attempt, Endpoint, Event, Message
from outbox.operations import attempts, endpoints
from outbox.operations.http import Client
from scheduling.domain.calls import Kind
from scheduling.operations import clusters
from tests import farm
from tests.outbox import receivers
from tests.outbox.receivers import HERE, Receiver, receiver
from tests.outbox.support import drain, due_now, endpoint

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _this_machine(settings: Settings) -> None:
    settings.OUTBOX = {**settings.OUTBOX, "ALLOWED_NETWORKS": HERE, "TIMEOUT_S": 2.0}


@pytest.fixture
def root() -> User:
    return User.objects.create_superuser("root", "root@example.org")


def record(subject: str = "queue/gpu", event_type: str = "queue.paused", **data: Any) -> None:
    operations.record(event_type, subject, {"queue": "gpü", **data})


def only() -> Message:
    return Message.objects.select_related("endpoint").get()


class TestAReceiverVerifies:
    """With the libraries that receivers use."""

    @pytest.mark.parametrize("library", [Webhook, svix.webhooks.Webhook])
    def test_a_message(self, library: Any) -> None:
        with receiver() as there:
            row = endpoint(there.url())
            record()
            drain()
        [request] = there.requests
        assert library(endpoints.secrets_of([row.pk])[row.pk][0]).verify(request.body, dict(request.headers))[
            "data"
        ] == {"queue": "gpü"}
        with pytest.raises((WebhookVerificationError, svix.webhooks.WebhookVerificationError)):
            library(endpoints.secrets_of([row.pk])[row.pk][0]).verify(request.body + b" ", dict(request.headers))

    @pytest.mark.parametrize("library", [Webhook, svix.webhooks.Webhook])
    def test_with_either_secret_while_both_live(self, library: Any, root: User) -> None:
        with receiver() as there:
            row = endpoint(there.url())
            [old] = endpoints.secrets_of([row.pk])[row.pk]
            new = operations.rotate(row.pk, by=root)
            record()
            drain()
            operations.rotate(row.pk, by=root, overlap=timedelta(0))
            record()
            drain()
        both, one = there.requests
        assert both.headers["webhook-signature"].count("v1,") == 2
        for secret in (old, new):
            assert library(secret).verify(both.body, dict(both.headers))
        assert one.headers["webhook-signature"].count("v1,") == 1
        with pytest.raises((WebhookVerificationError, svix.webhooks.WebhookVerificationError)):
            library(new).verify(one.body, dict(one.headers))

    def test_the_attributes_of_cloud_events(self) -> None:
        with receiver() as there:
            endpoint(there.url())
            record("queue/gpu 1 ü")
            drain()
        headers = there.requests[0].headers
        event = Event.objects.get()
        assert headers["ce-specversion"] == "1.0"
        assert headers["ce-id"] == headers["webhook-id"] == f"msg_{event.uid.hex}"
        assert headers["ce-type"] == "queue.paused"
        assert headers["ce-source"].startswith("http")
        assert headers["ce-subject"] == "queue/gpu%201%20%C3%BC"
        assert datetime.fromisoformat(headers["ce-time"]) == event.occurred_at
        assert json.loads(there.requests[0].body)["timestamp"] == headers["ce-time"]


class TestAnAttempt:
    def test_that_is_taken_ends_the_message(self) -> None:
        with receiver(status=202) as there:
            there.body = b"thanks \x00"
            endpoint(there.url())
            record()
            drain()
        message = only()
        attempt = Attempt.objects.get()
        assert (message.status, message.attempts, message.note, message.lease) == ("delivered", 1, "", None)
        assert (attempt.number, attempt.http_status, attempt.answer) == (1, 202, "thanks �")
        assert attempt.outcome == "delivered"

    @pytest.mark.parametrize(
        ("behave", "status", "note"),
        [
            (receivers.answers, 500, "It answered 500."), (receivers.answers, 302, "It answered 302."),
            (receivers.answers, 404, "It answered 404."), (receivers.hangs, 0, "It did not answer within 2 s."),
            (receivers.hangs_up, 0, "Server disconnected"),
        ],
    )  # fmt: skip
    def test_that_fails_is_followed_by_another(self, behave: Any, status: int, note: str) -> None:
        with receiver(behave, status=status) as there:
            endpoint(there.url())
            record()
            drain()
            message = only()
            assert (message.status, message.attempts) == ("pending", 1)
            assert message.note.startswith(note)
            assert message.next_attempt_at is not None
            assert timedelta(seconds=2) < message.next_attempt_at - message.created_at < timedelta(seconds=30)
            there.behave, there.status = receivers.answers, 200
            due_now()
            drain()
        first, second = there.requests
        assert first.body == second.body
        assert first.headers["webhook-id"] == second.headers["webhook-id"]
        assert only().status == "delivered"
        assert [one.outcome for one in Attempt.objects.all()] == ["failed", "delivered"]

    def test_to_nobody_fails(self) -> None:
        with receiver() as there:
            endpoint(there.url())
        record()
        drain()
        assert only().status == "pending"
        assert "connect" in only().note.lower()

    def test_to_a_wrong_certificate_sends_nothing(self) -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
        with receiver(tls=context) as there:
            endpoint(there.url())
            record()
            drain()
        assert there.requests == []
        assert "certificate" in only().note.lower()

    def test_to_this_machine_is_refused_unless_it_is_allowed(self, settings: Settings) -> None:
        settings.OUTBOX = {**settings.OUTBOX, "ALLOWED_NETWORKS": ()}
        with receiver() as there:
            endpoint(there.url())
            record()
            drain()
        assert there.connections == 0
        assert "private network" in only().note

    def test_that_is_the_last_gives_the_message_up(self) -> None:
        with receiver(status=500) as there:
            endpoint(there.url())
            record()
            for _ in range(addresses.MOST_ATTEMPTS):
                due_now()
                drain()
        assert (only().status, only().attempts) == ("dead", addresses.MOST_ATTEMPTS)
        assert len(there.requests) == addresses.MOST_ATTEMPTS

    def test_is_not_made_without_a_secret_that_can_be_opened(self, settings: Settings) -> None:
        with receiver() as there:
            endpoint(there.url())
            settings.SECRET_KEY = "another"
            record()
            drain()
        assert there.requests == []
        assert only().note == attempts.UNSIGNED

    def test_of_a_result_has_it(self) -> None:
        with receiver() as there:
            endpoint(there.url(), with_result=True)
            operations.record_all(
                [operations.NewEvent(type="job.succeeded", subject="job/1", data={"id": 1}, result=[1, 2])]
            )
            drain()
        assert json.loads(there.requests[0].body)["data"] == {"id": 1, "result": [1, 2]}


class TestWhatAReceiverAsksFor:
    @pytest.mark.parametrize("status", [429, 503])
    def test_is_to_be_left_alone_for_a_while(self, status: int) -> None:
        with receiver(status=status) as there:
            there.headers = {"Retry-After": "600"}
            row = endpoint(there.url())
            record()
            drain()
            message = only()
            assert message.next_attempt_at is not None
            assert message.next_attempt_at - message.created_at > timedelta(seconds=590)
            record("queue/other")  # all of the endpoint waits, not the message alone
            drain()
            assert len(there.requests) == 1
            row.refresh_from_db()
            assert row.held_until is not None
            assert 540 < (queries.next_due_s() or 0) < 605  # it is a while since

    def test_is_to_be_forgotten(self, root: User) -> None:
        with receiver(status=410) as there:
            row = endpoint(there.url())
            record("queue/a")
            record("queue/b")
            drain()
        row.refresh_from_db()
        assert (row.status, row.note) == ("disabled", GONE)
        assert set(Message.objects.values_list("status", flat=True)) == {"dead"}
        operations.record("queue.paused", "queue/c", {})
        assert Message.objects.count() == 2


class TestOrder:
    def test_of_one_subject_is_kept_while_an_earlier_message_fails(self) -> None:
        async def fails_once(there: Receiver, writer: Any, request: Any) -> None:
            lost = [one for one in there.requests if one.headers["ce-type"] == "job.lost"]
            there.status = 500 if request.headers["ce-type"] == "job.lost" and len(lost) == 1 else 200
            await receivers.answers(there, writer, request)

        with receiver(fails_once) as there:
            endpoint(there.url())
            record("job/1", "job.lost")
            record("job/1", "job.succeeded")
            record("job/2", "job.succeeded")
            drain()
            due_now()
            drain()
        types = [(one.headers["ce-subject"], one.headers["ce-type"]) for one in there.requests]
        of_one = [event_type for subject, event_type in types if subject == "job/1"]
        assert of_one == ["job.lost", "job.lost", "job.succeeded"]
        assert ("job/2", "job.succeeded") in types[:2]

    def test_goes_on_when_the_earlier_one_is_given_up(self) -> None:
        with receiver(status=500) as there:
            endpoint(there.url())
            record("job/1", "job.lost")
            record("job/1", "job.succeeded")
            for _ in range(addresses.MOST_ATTEMPTS):
                due_now()
                drain()
            there.status = 200
            due_now()
            drain()
        assert there.requests[-1].headers["ce-type"] == "job.succeeded"
        assert list(Message.objects.order_by("id").values_list("status", flat=True)) == ["dead", "delivered"]


class TestAnEndpoint:
    def test_that_fails_for_long_is_paused_and_its_owner_gets_mail(self, settings: Settings, root: User) -> None:
        settings.HAS_MAIL_SERVER, settings.JOBFARM_URL = True, "https://farm.example"
        with receiver(status=500) as there:
            row = endpoint(there.url(), owner=root, name="my\nhooks")
            operations.send_test(row.pk, by=root)
            drain()
            row.refresh_from_db()
            assert row.failing_since is not None
            Endpoint.objects.update(failing_since=Now() - timedelta(hours=73))
            due_now()
            drain()
            row.refresh_from_db()
            assert row.status == "paused"
            assert "72 h" in row.note
            due_now()
            drain()
            assert len(there.requests) == 2  # nothing goes there any more
            clusters.run_due(kinds=[Kind.ACTION])
            [letter] = mail.outbox
            assert (letter.to, letter.subject) == (["root@example.org"], "jobfarm: the endpoint my hooks is paused")
            assert f"https://farm.example/outbox/{row.pk}/" in letter.body
            there.status = 200
            operations.resume(row.pk, by=root)
            drain()
        assert only().status == "delivered"
        row.refresh_from_db()
        assert row.status == "active"
        assert Endpoint.objects.filter(pk=row.pk, failing_since=None).exists()

    def test_that_takes_one_message_is_well_again(self, root: User) -> None:
        with receiver(status=500) as there:
            row = endpoint(there.url())
            record()
            drain()
            there.status = 200
            due_now()
            drain()
        row.refresh_from_db()
        assert row.failing_since is None

    def test_that_is_paused_gets_what_was_kept(self, root: User) -> None:
        with receiver() as there:
            row = endpoint(there.url())
            operations.pause(row.pk, by=root)
            record()
            drain()
            assert there.requests == []
            operations.resume(row.pk, by=root)
            drain()
        assert len(there.requests) == 1

    def test_gets_no_more_a_minute_than_it_may(self) -> None:
        with receiver() as there:
            row = endpoint(there.url(), per_minute=3)
            for n in range(5):
                record(f"queue/{n}")
            drain()
            assert len(there.requests) == 3
            row.refresh_from_db()
            assert row.held_until is not None
            assert 0 < (queries.next_due_s() or 0) <= 20
        assert Message.objects.filter(status="pending", attempts=0, lease=None).count() == 2

    def test_gets_a_test_event_whatever_it_asks_for(self, root: User) -> None:
        with receiver() as there:
            row = endpoint(there.url(), events=["job.failed"], kinds=["image"])
            endpoint(there.url("/other"))
            assert operations.send_test(row.pk, by=root) == 1
            drain()
        [request] = there.requests
        assert (request.path, request.headers["ce-type"]) == ("/hook", "outbox.test")


class TestAReplay:
    def test_sends_the_same_message_once_more(self, root: User) -> None:
        with receiver() as there:
            endpoint(there.url())
            record()
            drain()
            operations.replay(only().pk, by=root)
            drain()
        first, second = there.requests
        assert first.headers["webhook-id"] == second.headers["webhook-id"]
        assert (only().tries, only().attempts) == (2, 1)
        assert [one.number for one in Attempt.objects.all()] == [1, 2]

    def test_of_all_that_match_leaves_the_others(self, root: User) -> None:
        with receiver(status=500) as there:
            one, two = endpoint(there.url()), endpoint(there.url("/two"))
            record()
            Message.objects.update(status="dead", next_attempt_at=None, ended_at=Now())
            wanted = operations.Filter(endpoint=one.pk, event_type="queue.paused")
            assert operations.count_matching(wanted, by=root) == 1
            assert operations.replay_matching(wanted, by=root) is not None
            clusters.run_due(kinds=[Kind.MUTATION])
            drain()
        assert [request.path for request in there.requests] == ["/hook"]
        assert Message.objects.get(endpoint=two).status == "dead"

    def test_of_one_that_waits_is_refused(self, root: User) -> None:
        endpoint()
        record()
        with pytest.raises(operations.OutboxError, match="will be sent anyway"):
            operations.replay(only().pk, by=root)


def test_what_ended_long_ago_is_deleted_and_what_waits_is_not(settings: Settings) -> None:
    with receiver() as there:
        endpoint(there.url()), endpoint(there.url(), status="paused")
        record("queue/both")
        drain()
    Message.objects.filter(status="delivered").update(ended_at=Now() - timedelta(days=31))
    Event.objects.update(created_at=Now() - timedelta(days=31))
    assert farm.retain("messages") == 1
    assert [one.status for one in Message.objects.all()] == ["pending"]
    assert (Event.objects.count(), Attempt.objects.count()) == (1, 0)
    Message.objects.all().delete()
    farm.retain()
    assert not Event.objects.exists()


def test_a_name_that_changes_its_mind_between_two_attempts_leads_nowhere_inside() -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["169.254.169.254"]

    endpoint("http://rebind.example/")
    record()
    drain(client=Client(allowed=(), resolve=resolve))
    assert "private network" in only().note
