"""Stripe: `t=..,v1=..` over `t.body`; the secret is used as text, `whsec_` included. Only v1 counts.

The package `stripe` is not used: it takes time stamps from any future, raises TypeError for what is not ASCII, finds
nothing after a space, and parses all of the event. The tests hold it against this module.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from webhooks.errors import BadSignature
from webhooks.sources import reading, signatures
from webhooks.sources.requests import Envelope, Key, Request, Verified

PATH: Final = "/api/webhooks/stripe"
BODY_LIMIT: Final = 2 << 20
MEDIA_TYPES: Final = ("application/json",)
OLDEST_S: Final = None


def check_secret(secret: str, /) -> None:
    """Used as it is typed. Raises BadSecret."""
    signatures.text_secret(secret, source="stripe")


def new_secret(random_bytes: bytes, /) -> str:
    """In Stripe's form; Stripe itself makes the real ones."""
    return f"whsec_{random_bytes.hex()}"


def verify(request: Request, /, *, keys: Sequence[Key], now: datetime) -> Verified:
    """Raises BadSignature."""
    header = signatures.header(request, "stripe-signature")
    pairs = [part.strip().partition("=") for part in header.split(",")]
    stamps = [value for name, _, value in pairs if name == "t"]
    if len(stamps) != 1:
        raise BadSignature(reason="malformed_timestamp")
    signed_at = signatures.moment(stamps[0], now=now)
    signed = stamps[0].encode() + b"." + request.body
    matched = signatures.matching_key(
        [value for name, _, value in pairs if name == "v1"],
        keys=keys,
        expected=lambda key: signatures.hexadecimal(key.secret.encode(), signed),
    )
    return Verified(key_id=matched, signed_at=signed_at)


def envelope(request: Request, document: Any, /, *, verified: Verified) -> Envelope:  # noqa: ARG001 (the protocol's)
    """All of it is the body's. A thin event of version 2 has its time in ISO 8601. Raises BadEnvelope."""
    body = reading.mapping(document)
    created = body.get("created")
    return Envelope(
        delivery_id=reading.name(body.get("id"), field="id"),
        event_type=reading.event(body.get("type"), field="type"),
        occurred_at=reading.seconds(created) or reading.iso(created) or verified.signed_at,
    )


def sign(
    body: bytes,
    /,
    *,
    secret: str,
    event_type: str,  # noqa: ARG001 (it is in the body)
    delivery_id: str,  # noqa: ARG001 (it is in the body)
    now: datetime,
) -> dict[str, str]:
    """Stripe's header."""
    stamp = str(int(now.timestamp()))
    signature = signatures.hexadecimal(secret.encode(), stamp.encode() + b"." + body).decode()
    return {"Stripe-Signature": f"t={stamp},v1={signature}"}
