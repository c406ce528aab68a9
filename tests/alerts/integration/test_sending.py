"""Messages on their way: by mail, to a webhook, into the outbox; what fails is tried again and seen."""

import ipaddress
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db.models import F
from pytest_django import Settings

from alerts import operations
from alerts.models import Notification, Rule
from alerts.operations import RETRY
from outbox.models import Endpoint, Message
from scheduling import operations as scheduling
from tests.alerts import receivers, watching
from tests.ports import free_port
from tests.webhooks.inbox.support import pass_time, receive
from webhooks.models import Delivery

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def mail(settings: Settings) -> Iterator[receivers.Mailbox]:
    """A mail server of the test's own, as settings name one."""
    port = free_port()
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.HAS_MAIL_SERVER, settings.EMAIL_HOST, settings.EMAIL_PORT = True, "127.0.0.1", port
    settings.DEFAULT_FROM_EMAIL, settings.JOBFARM_URL = "farm@example.org", "https://farm.example.org"
    with receivers.mail_server(port) as box:
        yield box


@pytest.fixture
def dead() -> Delivery:
    """A webhook delivery that failed for good."""
    delivery = receive()
    Delivery.objects.filter(pk=delivery.pk).update(status="dead", note="No.", ended_at=F("received_at"))
    return delivery


def fire(**values: object) -> Rule:
    rule = watching.make("deliveries_dead", **values)
    watching.watch()
    return rule


def stored() -> Notification:
    return Notification.objects.get()


class TestByMail:
    def test_each_recipient_gets_one_of_their_own(self, dead: Delivery, mail: receivers.Mailbox) -> None:
        fire(mail_to="ops@example.org, ada@example.org")
        assert sorted(to for to, _ in mail.mails) == [["ada@example.org"], ["ops@example.org"]]
        _, sent = mail.mails[0]
        assert (sent["Subject"], sent["From"]) == ("[FIRING:1] Bad", "farm@example.org")
        text = sent.get_content()
        assert "Webhook deliveries failed for good: more than 0." in text
        assert "https://farm.example.org/alerts/" in text
        assert set(Notification.objects.values_list("status", flat=True)) == {"sent"}

    def test_a_server_that_is_away_is_tried_again_and_its_error_seen(
        self, dead: Delivery, settings: Settings, mail: receivers.Mailbox
    ) -> None:
        port, settings.EMAIL_PORT = settings.EMAIL_PORT, free_port()
        fire()
        failed = stored()
        assert (failed.status, failed.tries) == ("pending", 1)
        assert "ConnectionRefusedError" in failed.error
        settings.EMAIL_PORT = port
        pass_time()
        assert (stored().status, stored().error, len(mail.mails)) == ("sent", "", 1)

    def test_after_the_last_try_it_has_failed(self, dead: Delivery, settings: Settings) -> None:
        settings.EMAIL_PORT = free_port()
        fire()
        for _ in range(RETRY.max_attempts + 1):
            pass_time()
        assert (stored().status, stored().tries) == ("failed", RETRY.max_attempts)
        assert stored().ended_at is not None

    def test_without_a_mail_server_it_says_so(self, dead: Delivery, settings: Settings) -> None:
        settings.HAS_MAIL_SERVER = False
        fire()
        assert stored().error == "The message cannot be sent: EMAIL_HOST names no mail server."

    def test_it_is_sent_once_however_often_it_is_asked_for(self, dead: Delivery, mail: receivers.Mailbox) -> None:
        fire()
        scheduling.run_after(0, operations.send, notification=stored().pk)
        scheduling.run_due()
        assert len(mail.mails) == 1

    def test_a_message_that_nobody_sent_within_a_day_has_failed_and_old_ones_go(self, dead: Delivery) -> None:
        fire()
        Notification.objects.update(status="pending", ended_at=None, created_at=F("created_at") - timedelta(days=2))
        operations.fail_forgotten()
        assert (stored().status, stored().error) == ("failed", "Nobody sent it within a day.")
        Notification.objects.update(created_at=F("created_at") - timedelta(days=30))
        assert scheduling.retain(names=["notifications"]) == {"notifications": 1}


class TestToAWebhook:
    @pytest.fixture(autouse=True)
    def _this_machine_is_allowed(self, settings: Settings) -> None:
        settings.OUTBOX = {**settings.OUTBOX, "ALLOWED_NETWORKS": (ipaddress.ip_network("127.0.0.0/8"),)}

    def test_it_is_one_text_as_slack_takes_it(self, dead: Delivery) -> None:
        with receivers.webhook() as (url, room):
            rule = fire(name="<!channel> & co", mail_to="", webhook_url=url)
        [(path, posted)] = room.posted
        assert path == "/services/T0/B0/secret"
        assert set(posted) == {"text"}
        assert posted["text"].startswith("[FIRING:1] &lt;!channel&gt; &amp; co\n")
        rule.refresh_from_db()
        assert (rule.webhook_host, stored().recipient, stored().status) == ("127.0.0.1", "127.0.0.1", "sent")
        assert b"secret" not in bytes(rule.sealed_url or b"")

    def test_what_it_refuses_is_tried_again(self, dead: Delivery) -> None:
        with receivers.webhook() as (url, room):
            room.status = 503
            fire(mail_to="", webhook_url=url)
            assert stored().error == "The message cannot be sent: 127.0.0.1 answered 503: no"
            room.status = 200
            pass_time()
        assert (stored().status, len(room.posted)) == ("sent", 2)

    def test_a_network_of_our_own_gets_nothing_unless_it_is_allowed(self, dead: Delivery, settings: Settings) -> None:
        settings.OUTBOX = {**settings.OUTBOX, "ALLOWED_NETWORKS": ()}
        with receivers.webhook() as (url, room):
            fire(mail_to="", webhook_url=url)
        assert room.posted == []
        assert "private network" in stored().error

    def test_a_message_of_a_rule_that_is_gone_or_was_sealed_elsewhere_says_so(
        self, dead: Delivery, settings: Settings
    ) -> None:
        with receivers.webhook() as (url, room):
            room.status = 503
            rule = fire(mail_to="", webhook_url=url)
            settings.SECRET_KEY = "x" * 50
            pass_time()
            assert "another SECRET_KEY" in stored().error
            operations.remove(rule.pk, by=User.objects.get(username="boss"))
            pass_time()
        assert stored().error == "The message cannot be sent: The rule has no webhook any more."


class TestIntoTheOutbox:
    def test_an_endpoint_of_the_farm_gets_what_fires_and_what_is_resolved(self, dead: Delivery) -> None:
        Endpoint.objects.create(name="pager", url="https://example.org/hook", events=["alert.*"])
        rule = fire()
        Delivery.objects.update(status="processed", note=None)
        watching.watch(after=10)
        events = [message.event for message in Message.objects.select_related("event").order_by("pk")]
        assert [(event.type, event.subject) for event in events] == [
            ("alert.firing", f"alert/{rule.pk}"), ("alert.resolved", f"alert/{rule.pk}")
        ]  # fmt: skip
