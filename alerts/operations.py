"""Rules are made and changed; an action reads the conditions, one mutation decides what fires and writes the messages
(docs/alerts.md); each message to each recipient is an action of its own, tried again for some hours, and its end is
kept. Conditions are registered in `alerts.registry`.
"""

import html
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.models import User
from django.core.mail import EmailMessage
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.urls import NoReverseMatch, reverse

from alerts import queries, registry
from alerts.domain import judging, rules
from alerts.domain.judging import Alert, Memory, Message, Policy, Text, judge as decide
from alerts.domain.rules import Condition, Observation, Reading, Unknown, addresses, observe
from alerts.errors import BadRule, CannotSend, NotFound
from alerts.models import Channel, Notification, NotificationStatus, Rule
from core import audit
from core.refusal import existing
from core.sealing import CannotUnseal, Sealer
from live import operations as live
from outbox import operations as outbox
from postgres import clock
from scheduling import context, operations as scheduling
from scheduling.operations import Json

# What a person chooses of a rule, and `webhook_url` (None: as it is); the condition is chosen once.
FIELDS: Final = (
    "name", "target", "threshold", "window_s", "hold_s", "keep_firing_s", "repeat_s", "severity", "mail_to",
    "is_enabled",
)  # fmt: skip


def make(condition: str, values: Mapping[str, Any], *, by: User) -> Rule:
    """Make a rule of FIELDS, which is judged within a minute. Raises BadRule."""
    if Rule.objects.count() >= rules.MOST_RULES:
        raise BadRule(field="number", reason=f"There are {rules.MOST_RULES} already.")
    with _one_of_its_name():
        row = Rule(condition=condition, created_by=by, **_checked(condition, values))
        row.save(force_insert=True)
        audit.record(by, row, "Made the rule.")
        live.touch(TOPIC)
    return row


def change(pk: int, values: Mapping[str, Any], *, by: User) -> Rule:
    """Change FIELDS of a rule. What fires stays, and is judged by the new numbers; a rule that is disabled forgets it,
    without a message. Raises NotFound, BadRule."""
    with _one_of_its_name():
        row = _locked(pk)
        checked = _checked(row.condition, values)
        changed = [name for name in checked if name in FIELDS and getattr(row, name) != checked[name]]
        changed += ["webhook_url"] if "sealed_url" in checked else []
        if not checked["is_enabled"]:
            row.alerts.all().delete()
            checked |= {"observed_at": None, "notified_at": None, "unknown": ""}
        Rule.objects.filter(pk=pk).update(**checked)
        audit.record(by, row, f"Changed {', '.join(changed)}." if changed else "Changed nothing.")
        live.touch(TOPIC)
    row.refresh_from_db()
    return row


def remove(pk: int, *, by: User) -> None:
    """Delete a rule and what fires of it. No message of resolved alerts is sent: nobody knows. Raises NotFound."""
    with transaction.atomic():
        row = _locked(pk)
        audit.record(by, row, "Deleted the rule.")
        row.delete()
        live.touch(TOPIC)


def send_test(pk: int, *, by: User) -> list[int]:
    """Send a message to each recipient of a rule, also of one that is muted; the ids of what was written. Raises
    NotFound."""
    with transaction.atomic():
        row = _locked(pk)
        body = f"A test message of the rule {row.name}, sent by {by.get_username()}. Nothing fires because of it.\n"
        sent = send_all(row, Text(title=f"[TEST] {row.name}", body=body))
        audit.record(by, row, f"Sent a test message to {len(sent)} recipients.")
        live.touch(TOPIC)
    return sent


def mute(pk: int, *, for_s: int | None, by: User) -> Rule:
    """Send nothing of a rule for so long; None: it sends again. It is judged meanwhile, and what is still to be sent is
    sent afterwards. Raises NotFound, BadRule."""
    if for_s is not None and not 0 < for_s <= rules.LONGEST_MUTE_S:
        raise BadRule(field="for_s", reason=f"It is from 1 to {rules.LONGEST_MUTE_S} seconds.")
    with transaction.atomic():
        row = _locked(pk)
        row.muted_until = until = None if for_s is None else clock.now() + timedelta(seconds=for_s)
        row.save(update_fields=["muted_until"])
        audit.record(by, row, f"Muted until {until:%Y-%m-%d %H:%M} UTC." if until else "Unmuted.")
        live.touch(TOPIC)
    return row


def _locked(pk: int) -> Rule:
    return existing(queries.locked_rule(pk), NotFound())


@contextmanager
def _one_of_its_name() -> Iterator[None]:
    try:
        with transaction.atomic():
            yield
    except IntegrityError:
        raise BadRule(field="name", reason="Another rule has this name.") from None


def _checked(condition: str, values: Mapping[str, Any]) -> dict[str, Any]:
    checked = {name: values[name] for name in FIELDS}
    checked["name"] = checked["name"].strip()
    rules.check(registry.find(condition), checked)
    return checked | _webhook(values.get("webhook_url"))


def _webhook(url: str | None) -> dict[str, Any]:
    """The columns of an address; none where it stays. Whether its host is a public one is judged when it is sent to."""
    if url is None:
        return {}
    if not url:
        return {"sealed_url": None, "webhook_host": ""}
    try:
        host = outbox.host_of(url)
    except outbox.BadUrl as refusal:
        raise BadRule(field="webhook_url", reason=refusal.message) from None
    return {"sealed_url": SEALER.seal(url), "webhook_host": host[:255]}


log = logging.getLogger(__name__)
TOPIC: Final = "alerts"
CRON: Final = "judge alerts"
_AT_ONCE: Final = 200  # rules that one transaction judges
_LONGEST_REASON: Final = 200  # characters of why nothing is known of a rule


@scheduling.action(timeout=50, idempotent=True)
def watch() -> int:
    """Read every condition that a rule watches, and judge the rules; how many there are.

    An action, since a reading may look at this machine's disk, and many statements need no serializable transaction.
    It runs in a cluster for actions, as the messages do: with one for mutations away it still reports that.
    """
    rules = list(Rule.objects.filter(is_enabled=True).order_by("pk"))
    failures = scheduling.Failures()
    for start in range(0, len(rules), _AT_ONCE):
        some = rules[start : start + _AT_ONCE]
        with failures.aside(f"rules {some[0].pk} to {some[-1].pk}"):
            judge(readings=_readings(some))
    failures.raise_any()
    return len(rules)


@scheduling.mutation
def judge(*, readings: Json) -> list[int]:
    """Judge rules by readings of `watch`: write what fires, and the messages that are due with their sending, all or
    nothing; the ids of these messages.

    Rules are locked, and a reading that is not newer than what a rule was judged by counts for nothing: of several
    that judge at once, one sends. A rule that cannot be judged stays as it was and says why; the others are judged.
    """
    assert isinstance(readings, dict)
    rules = list(Rule.objects.select_for_update().filter(pk__in=map(int, readings), is_enabled=True).order_by("pk"))
    memories = queries.memories(rules)
    now = clock.now()
    sent: list[int] = []
    failures = scheduling.Failures()
    for rule in rules:
        with failures.aside(rule.name):
            sent += _judge(rule, memories[rule.pk], readings[str(rule.pk)], now)
    for rule in rules:
        if reason := failures.reasons.get(rule.name):
            Rule.objects.filter(pk=rule.pk).update(unknown=f"It cannot be judged: {reason}"[:_LONGEST_REASON])
            live.touch(TOPIC)
    return sent


def _readings(rules: Sequence[Rule]) -> dict[str, Json]:
    """What each rule sees. Rules that watch the same share one reading, and it is as old as its beginning."""
    read: dict[tuple[str, int], tuple[datetime, Reading | Unknown]] = {}
    seen: dict[str, Json] = {}
    for rule in rules:
        known = registry.find(rule.condition)
        key = (rule.condition, rule.window_s if known and known.is_windowed else 0)
        if key not in read:
            read[key] = (clock.now(), registry.read(rule.condition, window_s=rule.window_s))
        at, reading = read[key]
        seen[str(rule.pk)] = {"at": at.isoformat(), **_seen(reading, rule)}
    return seen


def _seen(reading: Reading | Unknown, rule: Rule) -> dict[str, Json]:
    """What a rule sees in a reading; a reading that is none is not known."""
    if isinstance(reading, Unknown):
        return {"unknown": reading.reason}
    try:
        observation = observe(reading, target=rule.target, threshold=rule.threshold)
        below = None if observation.below is None else sorted(observation.below)
        return {"above": dict(observation.above), "below": below}
    except Exception as error:
        log.exception("What the condition %s read is no reading", rule.condition)
        return {"unknown": f"What was read makes no sense: {scheduling.reason_of(error)}"}


def _judge(rule: Rule, memory: Memory, reading: Json, now: datetime) -> list[int]:
    assert isinstance(reading, dict)
    at = datetime.fromisoformat(str(reading["at"]))
    times = {name: timedelta(seconds=getattr(rule, f"{name}_s")) for name in ("hold", "keep_firing", "repeat")}
    policy = Policy(muted_until=rule.muted_until, **times)
    after, message = decide(policy, memory, _observation(reading), observed_at=at, now=now)
    if queries.keep(rule, memory, after, unknown=str(reading.get("unknown", ""))[:_LONGEST_REASON]):
        live.touch(TOPIC)
    condition = registry.find(rule.condition)
    return [] if message is None or condition is None else _send(rule, message, condition)


def _observation(reading: dict[str, Json]) -> Observation | None:
    if "unknown" in reading:
        return None
    above, below = reading["above"], reading["below"]
    assert isinstance(above, dict)
    assert below is None or isinstance(below, list)
    return Observation(
        above={subject: float(str(value)) for subject, value in above.items()},
        below=None if below is None else frozenset(map(str, below)),
    )


def _send(rule: Rule, message: Message, condition: Condition) -> list[int]:
    text = judging.compose(
        message, rule=rule.name, severity=rule.severity, condition=condition, threshold=rule.threshold,
        url=page_url(),
    )  # fmt: skip
    made = send_all(rule, text)
    _record(rule, "alert.firing", message.firing, omitted=message.omitted)
    _record(rule, "alert.resolved", message.resolved)
    return made


def _record(rule: Rule, event: str, alerts: Sequence[Alert], *, omitted: int = 0) -> None:
    """Write an event for the endpoints of the whole farm, if there are any."""
    if not alerts:
        return
    about = {"rule_id": rule.pk, "rule": rule.name, "condition": rule.condition, "severity": rule.severity}
    listed = [{"subject": alert.subject, "value": alert.value, "since": alert.since.isoformat()} for alert in alerts]
    data = {**about, "threshold": rule.threshold, "alerts": listed, "omitted": omitted}
    outbox.record(event, f"alert/{rule.pk}", data)


# After 10, 40, 160, 640, 2560 and 3600 s, up to half as much longer: two to three hours in all.
RETRY: Final = scheduling.Retry(max_attempts=7, first=10, base=4)
_FORGOTTEN: Final = timedelta(days=1)  # far longer than all tries take
SEALER: Final = Sealer(b"jobfarm alerts webhook addresses v1")


@scheduling.action(timeout=60, retry=RETRY, idempotent=True)
def send(*, notification: int) -> str:
    """Send one message to one recipient; what came of it. Raises what the channel raises, and is tried again. It is
    tried again too when its process died in the middle: two messages are better than none."""
    row = _pending(notification).select_related("rule").first()
    if row is None:
        return "there is nothing to send"
    try:
        (_mail if row.channel == Channel.MAIL else _post_webhook)(row)
    except Exception as error:
        attempt = running.attempt if (running := context.current()) else 1
        record_failure(notification=row.pk, error=scheduling.reason_of(error), attempt=attempt)
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
    live.touch(TOPIC)


@scheduling.mutation
def record_failure(*, notification: int, error: str, attempt: int) -> None:
    """A try failed; after the last one it counts as failed."""
    is_last = attempt >= RETRY.max_attempts
    ended: dict[str, Any] = {"status": NotificationStatus.FAILED, "ended_at": Now()} if is_last else {}
    _pending(notification).update(tries=attempt, error=error[:300], **ended)
    live.touch(TOPIC)


@scheduling.mutation
def fail_forgotten() -> int:
    """Messages that were to be sent and were not, for example because their actions were canceled, count as failed; how
    many."""
    live.touch(TOPIC)
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


def _post_webhook(row: Notification) -> None:
    """As Slack's incoming webhooks take it, and what is compatible with them: nothing in it is a link or a mention."""
    body = json.dumps({"text": html.escape(f"{row.title}\n{row.body}", quote=False)}).encode()
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
