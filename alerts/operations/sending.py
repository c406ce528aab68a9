"""Sending: each message to each recipient is an action of its own, tried again for some hours, and its end is kept."""

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from django.conf import settings
from django.core.mail import EmailMessage
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.urls import NoReverseMatch, reverse

from alerts.domain.messages import Text
from alerts.domain.rules import addresses
from alerts.errors import CannotSend
from alerts.models import Channel, Notification, NotificationStatus, Rule
from core.sealing import CannotUnseal, Sealer
from live import operations as live
from outbox import operations as outbox
from scheduling import context
from scheduling import operations as scheduling

# After 10, 40, 160, 640, 2560 and 3600 s, up to half as much longer: two to three hours in all.
RETRY: Final = scheduling.Retry(max_attempts=7, first=10, base=4)
_FORGOTTEN: Final = timedelta(days=1)  # far longer than all tries take
SEALER: Final = Sealer(b"jobfarm alerts webhook addresses v1")
_TOPIC: Final = "alerts"


@scheduling.action(timeout=60, retry=RETRY, idempotent=True)
def send(*, notification: int) -> str:
    """Send one message to one recipient; what came of it. Raises what the channel raises, and is tried again. It is
    tried again too when its process died in the middle: two messages are better than none."""
    row = _pending(notification).select_related("rule").first()
    if row is None:
        return "there is nothing to send"
    try:
        _CHANNELS[row.channel](row)
    except Exception as error:
        running = context.current()
        record_failure(notification=row.pk, error=_reason(error), attempt=running.attempt if running else 1)
        raise
    record_sent(notification=row.pk)
    return "sent"


def send_all(rule: Rule, text: Text) -> list[int]:
    """Write a message to each recipient of a rule, with its sending, in the caller's transaction; their ids."""
    to = [(Channel.MAIL.value, address) for address in addresses(rule.mail_to)]
    to += [(Channel.WEBHOOK.value, rule.webhook_host)] if rule.webhook_host else []
    new = [
        Notification(rule=rule, channel=channel, recipient=recipient, title=text.title, body=text.body)
        for channel, recipient in to
    ]
    made = [row.pk for row in Notification.objects.bulk_create(new)]
    for pk in made:
        scheduling.run_after(0, send, notification=pk)
    return made


@scheduling.mutation
def record_sent(*, notification: int) -> None:
    _pending(notification).update(status=NotificationStatus.SENT, ended_at=Now(), error="")
    live.touch(_TOPIC)


@scheduling.mutation
def record_failure(*, notification: int, error: str, attempt: int) -> None:
    """A try failed; after the last one it counts as failed."""
    is_last = attempt >= RETRY.max_attempts
    ended: dict[str, Any] = {"status": NotificationStatus.FAILED, "ended_at": Now()} if is_last else {}
    _pending(notification).update(tries=attempt, error=error[:300], **ended)
    live.touch(_TOPIC)


@scheduling.mutation
def fail_forgotten() -> int:
    """Messages that were to be sent and were not, for example because their actions were canceled, count as failed; how
    many."""
    live.touch(_TOPIC)
    rows = Notification.objects.filter(status=NotificationStatus.PENDING, created_at__lt=Now() - _FORGOTTEN)
    return rows.update(status=NotificationStatus.FAILED, ended_at=Now(), error="Nobody sent it within a day.")


def page_url() -> str:
    """Where people see what fires; empty where the farm does not know its own address."""
    try:
        return f"{settings.JOBFARM_URL}{reverse('alerts:list')}" if settings.JOBFARM_URL else ""
    except NoReverseMatch:  # this site leaves the pages out
        return ""


def _pending(pk: int) -> "QuerySet[Notification]":
    return Notification.objects.filter(pk=pk, status=NotificationStatus.PENDING)


def _mail(row: Notification) -> None:
    if not settings.HAS_MAIL_SERVER:
        raise CannotSend(reason="EMAIL_HOST names no mail server.")
    EmailMessage(subject=row.title, body=row.body, to=[row.recipient]).send()


def _webhook(row: Notification) -> None:
    """As Slack's incoming webhooks take it, and what is compatible with them."""
    body = json.dumps({"text": _slack(f"{row.title}\n{row.body}")}).encode()
    answer = outbox.send(_url(row), body, headers={"content-type": "application/json"})
    if not answer.is_accepted:
        raise CannotSend(reason=answer.error or f"{row.recipient} answered {answer.status}: {answer.text[:100]}")


def _url(row: Notification) -> str:
    if row.rule is None or row.rule.sealed_url is None:
        raise CannotSend(reason="The rule has no webhook any more.")
    try:
        return SEALER.unseal(row.rule.sealed_url)
    except CannotUnseal:
        raise CannotSend(reason="Its address was stored under another SECRET_KEY: enter it again.") from None


def _slack(text: str) -> str:
    """Text in which nothing is a link or a mention: Slack's three control characters are escaped."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


_CHANNELS: Final[Mapping[str, Callable[[Notification], None]]] = {
    Channel.MAIL.value: _mail, Channel.WEBHOOK.value: _webhook,
}  # fmt: skip


def _reason(error: Exception) -> str:
    return error.message if isinstance(error, CannotSend) else f"{type(error).__name__}: {error}"
