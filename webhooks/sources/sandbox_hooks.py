"""Hooks of the agents in sandboxes. A type is the body's `hook_event_name`.

The agent's own HTTP hooks cannot sign, so a bearer token of the sandbox is a second way in (operations.tokens). They
read the answer: it is `{}` and nothing else, since other keys would steer the agent. Bodies have neither id nor time:
without a signed id it is session, event and tool use where there is one, else the body's digest.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from webhooks.sources import reading, sandbox, standard
from webhooks.sources.requests import LONGEST_ID, Envelope, Key, Request, Verified

PATH: Final = "/api/sandbox/hook-events"
BODY_LIMIT: Final = sandbox.BODY_LIMIT
MEDIA_TYPES: Final = ("application/json",)
OLDEST_S: Final = None


def check_secret(secret: str, /) -> None:
    """Base64, with or without `whsec_`. Raises BadSecret."""
    standard.check_secret(secret, source="sandbox_hooks")


def new_secret(random_bytes: bytes, /) -> str:
    """`whsec_` and base64."""
    return standard.new_secret(random_bytes)


def verify(request: Request, /, *, keys: Sequence[Key], now: datetime) -> Verified:
    """As Standard Webhooks. Raises BadSignature."""
    return sandbox.verify(request, keys=keys, now=now)


def envelope(request: Request, document: Any, /, *, verified: Verified) -> Envelope:
    """The time is that of the signature: the body has none. Raises BadEnvelope."""
    body = reading.mapping(document)
    return Envelope(
        delivery_id=_tool_use(request, body) or sandbox.delivery_id(request),
        event_type=sandbox.typed(body, field="hook_event_name"),
        occurred_at=verified.signed_at,
    )


def sign(body: bytes, /, *, secret: str, event_type: str, delivery_id: str, now: datetime) -> dict[str, str]:
    """The three headers; the type is in the body."""
    del event_type
    return sandbox.sign(body, secret=secret, delivery_id=delivery_id, now=now)


def _tool_use(request: Request, body: Mapping[str, Any]) -> str | None:
    if "webhook-id" in request.headers:
        return None
    parts = [body.get(field) for field in ("session_id", "hook_event_name", "tool_use_id")]
    if not all(isinstance(part, str) and part for part in parts):
        return None
    together = ":".join(map(str, parts))
    return together if len(together) <= LONGEST_ID and together.isprintable() else None
