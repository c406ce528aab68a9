"""Endpoints of the outbox at `signal:closed?key={{data.unique_key}}`: an event sends the signal `closed` to who waits
for it by that key. Placeholders stand for what the event has: `type`, `timestamp`, `data`."""

import json
from collections.abc import Mapping
from typing import Any, Final

from django.contrib.auth.models import User

from core import templates
from jobs.domain.waits import DATA_BYTES, LONGEST_KEY, checked_name
from jobs.errors import InvalidValue
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
    """Send the signal, with the event as its data, to the jobs of `owner` that wait for it, or to everybody's. Sent
    again it is the same one. Raises what `templates.render` and `signal_by_key` do."""
    name, template = _parts(url)
    key = templates.render(template, event, reason=_reason, limit_bytes=DATA_BYTES)
    waits.signal_by_key(templates.as_text(key), name, dict(event), by=owner, key=message_id)


def _parts(url: str) -> tuple[str, str]:
    name, _, key = url.removeprefix(f"{SCHEME}:").partition("?key=")
    return name, key


def _reason(path: str) -> str | None:
    if path.partition(".")[0] in _ROOTS:
        return None
    return f"{json.dumps(path)} is nothing of an event: it has {', '.join(_ROOTS)}"
