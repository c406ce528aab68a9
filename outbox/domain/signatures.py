"""Standard Webhooks 1.0: how a message is signed (https://www.standardwebhooks.com, "Signature scheme"), and its
attributes as CloudEvents 1.0 names them in HTTP's binary mode."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

PREFIX: Final = "whsec_"
SECRET_BYTES: Final = 32  # of a new one; the specification asks for 24 to 64
_FEWEST_BYTES, _MOST_BYTES = 24, 64


def secret_of(key: bytes) -> str:
    return PREFIX + base64.b64encode(key).decode()


def key_of(secret: str) -> bytes:
    """The bytes of a secret. Raises ValueError with the reason."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"after {PREFIX} it is base64") from None
    if not secret.startswith(PREFIX) or not _FEWEST_BYTES <= len(key) <= _MOST_BYTES:
        raise ValueError(f"it is {PREFIX} and {_FEWEST_BYTES} to {_MOST_BYTES} bytes as base64")
    return key


def headers(
    *, message_id: str, event_type: str, subject: str, source: str, occurred_at: datetime, body: bytes,
    secrets: Sequence[str], now: datetime,
) -> dict[str, str]:  # fmt: skip
    """The headers of one attempt at `now`, signed with each of these secrets, the newest first."""
    timestamp = str(int(now.timestamp()))
    return {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(_signature(one, message_id, timestamp, body) for one in secrets),
        "ce-specversion": "1.0",
        "ce-id": message_id,
        "ce-type": event_type,
        "ce-source": source,
        "ce-subject": quote(subject, safe="/:@!$&'()*+,;=-._~"),
        "ce-time": occurred_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
    }


def _signature(secret: str, message_id: str, timestamp: str, body: bytes) -> str:
    signed = f"{message_id}.{timestamp}.".encode() + body
    digest = hmac.new(key_of(secret), signed, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()
