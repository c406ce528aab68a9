"""Jira: an administrator's hook with a secret. A type is the body's `webhookEvent`.

The identifier is the same over repeats and is not signed, so the digest of the body is a second key. Jira repeats on
408, 409, 425, 429, 5xx and silence; any other 4xx loses the event for good.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from webhooks.sources import atlassian, reading, signatures
from webhooks.sources.requests import Envelope, Key, Request, Verified

PATH: Final = "/api/webhooks/jira"
BODY_LIMIT: Final = 5 << 20
MEDIA_TYPES: Final = ("application/json",)
OLDEST_S: Final = atlassian.OLDEST_S


def check_secret(secret: str, /) -> None:
    """Used as it is typed. Raises BadSecret."""
    signatures.text_secret(secret, source="jira")


def new_secret(random_bytes: bytes, /) -> str:
    """64 hexadecimal digits."""
    return random_bytes.hex()


def verify(request: Request, /, *, keys: Sequence[Key], now: datetime) -> Verified:  # noqa: ARG001 (the body is dated)
    """Raises BadSignature."""
    return atlassian.verify(request, keys=keys)


def envelope(request: Request, document: Any, /, *, verified: Verified) -> Envelope:  # noqa: ARG001 (the protocol's)
    """The id is a header, type and time are the body's. Raises BadEnvelope."""
    body = reading.mapping(document)
    identifier = reading.header_name(request, "x-atlassian-webhook-identifier")
    return Envelope(
        delivery_id=identifier or signatures.digest_id(request.body),
        event_type=reading.event(body.get("webhookEvent"), field="webhookEvent"),
        occurred_at=reading.milliseconds(body.get("timestamp")),
    )


def sign(
    body: bytes,
    /,
    *,
    secret: str,
    event_type: str,  # noqa: ARG001 (it is in the body)
    delivery_id: str,
    now: datetime,  # noqa: ARG001 (the body is dated)
) -> dict[str, str]:
    """Jira's headers."""
    return atlassian.sign(body, secret=secret) | {"X-Atlassian-Webhook-Identifier": delivery_id}
