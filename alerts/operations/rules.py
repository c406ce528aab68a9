"""What people do with rules. Each leaves a line in Django's admin log."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet

from alerts import queries, registry
from alerts.domain import rules
from alerts.domain.messages import Text
from alerts.errors import BadRule, NotFound
from alerts.models import Rule
from alerts.operations import sending
from alerts.operations.judging import TOPIC
from core import audit
from live import operations as live
from outbox import operations as outbox
from postgres import clock

# What a person chooses of a rule, and `webhook_url` (None: as it is); the condition is chosen once.
FIELDS: Final = (
    "name", "target", "threshold", "window_s", "hold_s", "keep_firing_s", "repeat_s", "severity", "mail_to",
    "is_enabled",
)  # fmt: skip


def make(condition: str, values: Mapping[str, Any], *, by: User) -> Rule:
    """Make a rule of FIELDS, which is judged within a minute. Raises BadRule."""
    if Rule.objects.count() >= rules.MOST_RULES:
        raise BadRule(field="number", reason=f"There are {rules.MOST_RULES} already.")
    with transaction.atomic():
        row = Rule(condition=condition, created_by=by, **_checked(condition, values, others=Rule.objects.all()))
        row.save(force_insert=True)
        audit.record(by, row, "Made the rule.")
        live.touch(TOPIC)
    return row


def change(pk: int, values: Mapping[str, Any], *, by: User) -> Rule:
    """Change FIELDS of a rule. What fires stays, and is judged by the new numbers; a rule that is disabled forgets it,
    without a message. Raises NotFound, BadRule."""
    with transaction.atomic():
        row = _locked(pk)
        checked = _checked(row.condition, values, others=Rule.objects.exclude(pk=pk))
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
        sent = sending.send_all(row, Text(title=f"[TEST] {row.name}", body=body))
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
    row = queries.locked_rule(pk)
    if row is None:
        raise NotFound
    return row


def _checked(condition: str, values: Mapping[str, Any], *, others: "QuerySet[Rule]") -> dict[str, Any]:
    checked = {name: values[name] for name in FIELDS}
    checked["name"] = checked["name"].strip()
    rules.check(registry.find(condition), checked)
    if others.filter(name=checked["name"]).exists():
        raise BadRule(field="name", reason="Another rule has this name.")
    return checked | _webhook(values.get("webhook_url"))


def _webhook(url: str | None) -> dict[str, Any]:
    """The columns of an address; none where it stays. Whether its host is a public one is judged when it is sent to."""
    if url is None:
        return {}
    if not url:
        return {"sealed_url": None, "webhook_host": ""}
    try:
        host = outbox.target(url).host
    except outbox.BadUrl as refusal:
        raise BadRule(field="webhook_url", reason=refusal.message) from None
    return {"sealed_url": sending.SEALER.seal(url), "webhook_host": host[:255]}
