"""Ends of sandbox sessions. A type is the body's own: `sandbox.session.completed`, `failed`, `canceled` and so on."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from webhooks.sources import reading, sandbox, standard
from webhooks.sources.requests import Envelope, Key, Request, Verified

PATH: Final = "/api/sandbox/completion"
BODY_LIMIT: Final = sandbox.BODY_LIMIT
MEDIA_TYPES: Final = ("application/json",)
OLDEST_S: Final = None


def check_secret(secret: str, /) -> None:
    """Base64, with or without `whsec_`. Raises BadSecret."""
    standard.check_secret(secret, source="sandbox_completion")


def new_secret(random_bytes: bytes, /) -> str:
    """`whsec_` and base64."""
    return standard.new_secret(random_bytes)


def verify(request: Request, /, *, keys: Sequence[Key], now: datetime) -> Verified:
    """As Standard Webhooks. Raises BadSignature."""
    return sandbox.verify(request, keys=keys, now=now)


def envelope(request: Request, document: Any, /, *, verified: Verified) -> Envelope:
    """The time is the body's `timestamp`, in ISO 8601. Raises BadEnvelope."""
    body = reading.mapping(document)
    return Envelope(
        delivery_id=sandbox.delivery_id(request),
        event_type=sandbox.typed(body, field="type"),
        occurred_at=reading.iso(body.get("timestamp")) or verified.signed_at,
    )


def sign(body: bytes, /, *, secret: str, event_type: str, delivery_id: str, now: datetime) -> dict[str, str]:
    """The three headers; the type is in the body."""
    del event_type
    return sandbox.sign(body, secret=secret, delivery_id=delivery_id, now=now)
