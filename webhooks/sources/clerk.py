"""Clerk, which sends through Svix: Standard Webhooks under `svix-` headers (`webhook-` where they are not branded).

The id stays over retries, time stamp and signature are new each time. A type is the body's own `type`.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from webhooks.sources import reading, standard
from webhooks.sources.requests import Envelope, Key, Request, Verified

PATH: Final = "/clerk-users-webhook"
BODY_LIMIT: Final = 1 << 20
MEDIA_TYPES: Final = ("application/json",)
OLDEST_S: Final = None
_PREFIXES: Final = ("svix", "webhook")


def check_secret(secret: str, /) -> None:
    """Base64, with or without `whsec_`. Raises BadSecret."""
    standard.check_secret(secret, source="clerk")


def new_secret(random_bytes: bytes, /) -> str:
    """One in Clerk's form."""
    return standard.new_secret(random_bytes)


def verify(request: Request, /, *, keys: Sequence[Key], now: datetime) -> Verified:
    """As Standard Webhooks. Raises BadSignature."""
    return standard.verify(request, keys=keys, now=now, prefixes=_PREFIXES)


def envelope(request: Request, document: Any, /, *, verified: Verified) -> Envelope:
    """The signed id; type and time are the body's. Raises BadEnvelope."""
    body = reading.mapping(document)
    return Envelope(
        delivery_id=reading.name(standard.message_id(request, prefixes=_PREFIXES), field="svix-id"),
        event_type=reading.event(body.get("type"), field="type"),
        occurred_at=reading.milliseconds(body.get("timestamp")) or verified.signed_at,
    )


def sign(body: bytes, /, *, secret: str, event_type: str, delivery_id: str, now: datetime) -> dict[str, str]:
    """As Svix signs; the type is in the body."""
    del event_type
    return standard.sign(body, secret=secret, delivery_id=delivery_id, now=now, prefix="svix")
