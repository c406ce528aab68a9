"""Standard Webhooks 1.0.0: `id.timestamp.body` under HMAC-SHA256. The sandbox sources, and Clerk by other headers.

The package `standardwebhooks` is not used: what is malformed makes it raise ValueError, binascii.Error or
UnicodeDecodeError, its base64 skips foreign characters, it takes fractions of a second, and its clock is its own.
The tests hold it against this module.
"""

import base64
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from webhooks.errors import BadSecret, BadSignature
from webhooks.sources import signatures
from webhooks.sources.requests import LONGEST_ID, Key, Request, Verified

PREFIXES: Final = ("webhook",)


def verify(
    request: Request, *, keys: Sequence[Key], now: datetime, prefixes: Sequence[str] = PREFIXES
) -> Verified:
    """Find the key that signed. Raises BadSignature."""
    message_id = signatures.header(request, *(f"{prefix}-id" for prefix in prefixes))
    stamp = signatures.header(request, *(f"{prefix}-timestamp" for prefix in prefixes))
    signature = signatures.header(request, *(f"{prefix}-signature" for prefix in prefixes))
    if "." in message_id:  # it would make two readings of what is signed
        raise BadSignature(reason="malformed_signature")
    signed_at = signatures.moment(stamp, now=now)
    signed = b".".join((message_id.encode(), stamp.encode(), request.body))
    candidates = [part.removeprefix("v1,") for part in signature.split(" ") if part.startswith("v1,")]
    matched = signatures.matching_key(
        candidates, keys=keys, expected=lambda key: signatures.based64(key_of(key), signed)
    )
    return Verified(key_id=matched, signed_at=signed_at)


def key_of(key: Key) -> bytes:
    """The bytes to sign with; none for a secret that is none, which then verifies nothing."""
    try:
        return signatures.base64_key(key.secret, source="")
    except BadSecret:
        return b""


def message_id(request: Request, *, prefixes: Sequence[str] = PREFIXES) -> str:
    """The id of a request, as it came; one that is too long is cut, and refused by whoever reads it."""
    return next((request.headers[f"{p}-id"] for p in prefixes if f"{p}-id" in request.headers), "")[
        : LONGEST_ID + 1
    ]


def new_secret(random_bytes: bytes) -> str:
    """`whsec_` and base64."""
    return f"whsec_{base64.b64encode(random_bytes).decode()}"


def sign(
    body: bytes, *, secret: str, delivery_id: str, now: datetime, prefix: str = PREFIXES[0]
) -> dict[str, str]:
    """The three headers."""
    stamp = str(int(now.timestamp()))
    signed = b".".join((delivery_id.encode(), stamp.encode(), body))
    signature = signatures.based64(signatures.base64_key(secret, source=""), signed).decode()
    return {
        f"{prefix}-id": delivery_id,
        f"{prefix}-timestamp": stamp,
        f"{prefix}-signature": f"v1,{signature}",
    }


def check_secret(secret: str, *, source: str) -> None:
    """Raise BadSecret for what is not base64 of 16 to 128 bytes, with or without `whsec_`."""
    signatures.base64_key(secret, source=source)
