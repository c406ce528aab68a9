"""What may be shown of the calls that sandboxes report: an agent's of a tool, and whatever called a gateway."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from webhooks.domain import links, names, staleness

_PLACES = ("file_path", "notebook_path", "path", "pattern", "subagent_type", "skill")
LONGEST = 255


def subject(tool_input: Mapping[str, Any]) -> str:
    """A file, a pattern, a host, or the agent's own description of a command; "" if there is nothing that may be shown.

    A command's text is not: it may hold a secret. Of an address the host is, as its path and query may hold one too."""
    for field in (*_PLACES, "description"):
        value = tool_input.get(field)
        if isinstance(value, str) and value:
            return value[:LONGEST]
    url = tool_input.get("url")
    return links.host(url) if isinstance(url, str) else ""


def identity(
    session_id: str, tool: str, tool_input: Mapping[str, Any], *, use_id: str = "", sandbox: str | None = None
) -> str:
    """Under which id a use of a tool is kept: `use_id`; older agents send none, and the same call in the same
    session stands in for it. So what comes before and after a call still meet; two equal calls in one session are one
    row. What a sandbox's token vouches for is that sandbox's: the same id of two of them is two uses."""
    own = use_id or f"{session_id[:200]}/{staleness.digest({'tool': tool, 'input': tool_input})}"
    return own if sandbox is None else names.within(sandbox, own)


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
    request, response = (
        part if isinstance(part := event.get(name), Mapping) else {} for name in ("request", "response")
    )
    status = response.get("status")
    is_status = isinstance(status, int) and 100 <= status <= 599
    method, place = _text(request.get("method")), _place(request.get("url"))
    return Caller(kind="fetch", subject=f"{method} {place}".strip()[:LONGEST], status=status if is_status else None)


def _place(url: Any) -> str:
    """Host and path: a query may hold a secret."""
    try:
        parts = urlsplit(_text(url))
    except ValueError:
        return ""
    return f"{parts.netloc.rpartition('@')[2]}{parts.path}"


def _text(value: Any) -> str:
    return value[:LONGEST] if isinstance(value, str) else ""
