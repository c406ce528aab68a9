"""Endpoints of the outbox at `signal:closed?key={{data.unique_key}}`: an event sends the signal `closed` to who waits
for it by that key. Placeholders stand for what the event has: `type`, `timestamp`, `data`."""

import json
from collections.abc import Mapping
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import transaction

from core import templates
from jobs.domain.flows import DATA_BYTES, LONGEST_KEY, checked_name
from jobs.errors import InvalidValue, PayloadTooLarge
from jobs.operations import waits
from outbox import operations as outbox

SCHEME: Final = "signal"
_ROOTS: Final = ("type", "timestamp", "data")


def check(url: str) -> None:
    """Raise BadUrl for what names no signal, or no key."""
    name, key = _parts(url)
    try:
        checked_name(name)
        templates.check(key, _reason)
    except InvalidValue as refusal:
        raise outbox.BadUrl(reason=refusal.why) from None
    except templates.BadTemplate as refusal:
        raise outbox.BadUrl(reason=refusal.reason) from None
    if not 1 <= len(key) <= LONGEST_KEY:
        raise outbox.BadUrl(reason=f"it is signal:NAME?key=KEY, with a key of at most {LONGEST_KEY} characters")


def take(url: str, event: Mapping[str, Any], *, message_id: str, owner: User | None) -> None:
    """Send the signal, with the event as its data, to the jobs of `owner` that wait for it; for an endpoint of the
    whole farm to those of the event's owner, and of what is nobody's to everybody's. Sent again it is the same one.
    Raises what `templates.render` and `signal_by_key` do: it is for nobody."""
    name, template = _parts(url)
    key = templates.as_text(templates.render(template, event, reason=_reason, limit_bytes=DATA_BYTES))
    sender_id = _owner_of(event) if owner is None else owner.pk
    try:
        with transaction.atomic():
            waits.send_by_key(key, name, dict(event), sender_id=sender_id, key=message_id)
    except PayloadTooLarge:
        data = {**event["data"], "result_omitted": f"it has more than {DATA_BYTES} bytes"}
        data.pop("result", None)
        waits.send_by_key(key, name, {**event, "data": data}, sender_id=sender_id, key=message_id)


def _owner_of(event: Mapping[str, Any]) -> int | None:
    """Whose the event is; 0, who has no jobs, if that person is gone."""
    if (name := event["data"].get("owner")) is None:
        return None
    return User.objects.filter(username=name).values_list("pk", flat=True).first() or 0


def _parts(url: str) -> tuple[str, str]:
    name, _, key = url.removeprefix(f"{SCHEME}:").partition("?key=")
    return name, key


def _reason(path: str) -> str | None:
    if path.partition(".")[0] in _ROOTS:
        return None
    return f"{json.dumps(path)} is nothing of an event: it has {', '.join(_ROOTS)}"
