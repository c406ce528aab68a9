"""What the three sandbox sources share: Standard Webhooks, of which this project writes the sending end too."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from webhooks.sources import reading, signatures, standard
from webhooks.sources.requests import Key, Request, Verified

BODY_LIMIT: Final = 1 << 20  # the output of a tool may be in it


def verify(request: Request, *, keys: Sequence[Key], now: datetime) -> Verified:
    """As Standard Webhooks. Raises BadSignature."""
    return standard.verify(request, keys=keys, now=now)


def delivery_id(request: Request) -> str:
    """The signed id; without one (a bearer token came instead) the digest of the body. Raises BadEnvelope."""
    message_id = standard.message_id(request)
    return reading.name(message_id, field="webhook-id") if message_id else signatures.digest_id(request.body)


def sign(body: bytes, *, secret: str, delivery_id: str, now: datetime) -> dict[str, str]:
    """The three headers."""
    return standard.sign(body, secret=secret, delivery_id=delivery_id, now=now)


def typed(document: Any, *, field: str) -> str:
    """The event's type in a field of the body; empty without it. Raises BadEnvelope."""
    return reading.event(reading.mapping(document).get(field), field=field)
