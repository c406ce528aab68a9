"""What the schemes have in common: HMAC-SHA256, compared in constant time over bytes, every key tried."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from webhooks.errors import BadSecret, BadSignature
from webhooks.sources.requests import Key, Request

TOLERANCE: Final = timedelta(seconds=300)
# Longer headers, and more candidates in one, are nobody's: adapters put at most a handful of signatures side by side.
LONGEST_HEADER: Final = 2048
MOST_CANDIDATES: Final = 16
_MOST_DIGITS: Final = 12  # of seconds since 1970: the year 33658
SHORTEST_SECRET: Final = 8
LONGEST_SECRET: Final = 255


def header(request: Request, *names: str) -> str:
    """The first of these headers that is there. Raises BadSignature: none is, it is too long or is not ASCII."""
    value = next((request.headers[name] for name in names if name in request.headers), "")
    if not value:
        raise BadSignature(reason="missing_signature")
    if len(value) > LONGEST_HEADER or not value.isascii():
        raise BadSignature(reason="malformed_signature")
    return value


def moment(text: str, *, now: datetime) -> datetime:
    """A time stamp in whole seconds, at most five minutes from now, either way. Raises BadSignature."""
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise BadSignature(reason="malformed_timestamp")
    age_s = now.timestamp() - int(text)
    if age_s > TOLERANCE.total_seconds():
        raise BadSignature(reason="too_old")
    if -age_s > TOLERANCE.total_seconds():
        raise BadSignature(reason="too_new")
    return datetime.fromtimestamp(int(text), UTC)


def matching_key(candidates: Sequence[str], *, keys: Sequence[Key], expected: Callable[[Key], bytes]) -> int:
    """The id of the key whose expected signature is among the candidates. Raises BadSignature.

    Every key is tried with every candidate whatever came before, so that its time reveals nothing.
    """
    encoded = [candidate.encode() for candidate in candidates[:MOST_CANDIDATES]]
    matched: int | None = None
    for key in keys:
        right = expected(key)
        for candidate in encoded:
            if hmac.compare_digest(right, candidate) and matched is None:
                matched = key.id
    if matched is None:
        raise BadSignature(reason="bad_signature")
    return matched


def hexadecimal(key: bytes, signed: bytes) -> bytes:
    """The HMAC in lower-case hex, as ASCII. Raises BadSignature for an empty key: anybody could compute that."""
    if not key:
        raise BadSignature(reason="bad_signature")
    return hmac.new(key, signed, hashlib.sha256).hexdigest().encode()


def based64(key: bytes, signed: bytes) -> bytes:
    """The HMAC in base64, as ASCII. Raises BadSignature for an empty key."""
    if not key:
        raise BadSignature(reason="bad_signature")
    return base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())


def text_secret(secret: str, *, source: str) -> None:
    """A secret that is used as it is typed. Raises BadSecret: too short, too long, or with a space at an end."""
    if not SHORTEST_SECRET <= len(secret) <= LONGEST_SECRET:
        why = f"it has {len(secret)} characters, not {SHORTEST_SECRET} to {LONGEST_SECRET}"
        raise BadSecret(source=source, reason=why)
    if secret != secret.strip() or not secret.isprintable():
        raise BadSecret(
            source=source, reason="it has a space at an end, or characters that are not printable"
        )


def base64_key(secret: str, *, source: str, prefix: str = "whsec_") -> bytes:
    """The key in `whsec_` and base64. Raises BadSecret."""
    try:
        key = base64.b64decode(secret.removeprefix(prefix), validate=True)
    except (binascii.Error, ValueError):
        raise BadSecret(source=source, reason=f"what follows {prefix} must be base64") from None
    if not 16 <= len(key) <= 128:
        raise BadSecret(source=source, reason=f"it holds {len(key)} bytes, not 16 to 128")
    return key


def digest_id(body: bytes) -> str:
    """The delivery id of a request that brings none."""
    return f"sha256:{hashlib.sha256(body).hexdigest()}"
