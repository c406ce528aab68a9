"""Telemetry of the Tail Worker: a list of trace items, or one of them. The busiest of the eight.

All of it has the type `batch`. It is stored at once and processed by the cron `sandbox queue drain`. The Worker's
`fetch` says text/plain unless it is told otherwise, so that is taken too.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from webhooks.errors import BadEnvelope
from webhooks.sources import sandbox, standard
from webhooks.sources.requests import Envelope, Key, Request, Verified

PATH: Final = "/api/sandbox/tail-telemetry"
BODY_LIMIT: Final = 4 << 20
MEDIA_TYPES: Final = ("application/json", "text/plain")
OLDEST_S: Final = None


def check_secret(secret: str, /) -> None:
    """Base64, with or without `whsec_`. Raises BadSecret."""
    standard.check_secret(secret, source="sandbox_telemetry")


def new_secret(random_bytes: bytes, /) -> str:
    """`whsec_` and base64."""
    return standard.new_secret(random_bytes)


def verify(request: Request, /, *, keys: Sequence[Key], now: datetime) -> Verified:
    """As Standard Webhooks. Raises BadSignature."""
    return sandbox.verify(request, keys=keys, now=now)


def envelope(request: Request, document: Any, /, *, verified: Verified) -> Envelope:
    """Raises BadEnvelope for what is neither an object nor a list of objects."""
    items = document if isinstance(document, list) else [document]
    if not all(isinstance(item, Mapping) for item in items):
        raise BadEnvelope(reason="the body must be a list of trace items, or one of them")
    return Envelope(
        delivery_id=sandbox.delivery_id(request), event_type="batch", occurred_at=verified.signed_at
    )


def sign(body: bytes, /, *, secret: str, event_type: str, delivery_id: str, now: datetime) -> dict[str, str]:
    """The three headers."""
    del event_type
    return sandbox.sign(body, secret=secret, delivery_id=delivery_id, now=now)
