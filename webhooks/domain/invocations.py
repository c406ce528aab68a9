"""What called a gateway, read from the event of its trace: each kind has fields of its own, and no name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

# The field that tells the kind, in the order asked: an alarm has a time too, but no cron.
_KINDS = (
    ("request", "fetch"),
    ("rpcMethod", "rpc"),
    ("cron", "scheduled"),
    ("scheduledTime", "alarm"),
    ("queue", "queue"),
    ("mailFrom", "email"),
    ("consumedEvents", "tail"),
    ("getWebSocketEvent", "websocket"),
)
LONGEST = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """What called: its kind, what of it may be shown, and the HTTP status it was answered with."""

    kind: str
    subject: str = ""
    status: int | None = None


def caller(event: Mapping[str, Any] | None) -> Caller:
    """The caller of an invocation. An unknown kind is "custom", none at all is "unknown"."""
    if event is None:
        return Caller(kind="unknown")
    kind = next((kind for field, kind in _KINDS if field in event), "custom")
    if kind == "fetch":
        return _fetch(event)
    field = {"rpc": "rpcMethod", "scheduled": "cron", "queue": "queue"}.get(kind, "")
    return Caller(kind=kind, subject=_text(event.get(field)))


def _fetch(event: Mapping[str, Any]) -> Caller:
    request, response = _mapping(event.get("request")), _mapping(event.get("response"))
    status = response.get("status")
    is_status = isinstance(status, int) and 100 <= status <= 599
    method, place = _text(request.get("method")), _place(request.get("url"))
    return Caller(
        kind="fetch", subject=f"{method} {place}".strip()[:LONGEST], status=status if is_status else None
    )


def _place(url: Any) -> str:
    """Host and path: a query may hold a secret."""
    try:
        parts = urlsplit(_text(url))
    except ValueError:
        return ""
    return f"{parts.netloc.rpartition('@')[2]}{parts.path}"


def _text(value: Any) -> str:
    return value[:LONGEST] if isinstance(value, str) else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
