"""A request as it came, what its signature proves, and what it says about itself.

What the three signature schemes promise:

- HMAC-SHA256 over the exact bytes, compared in constant time, with every live secret whatever came before: several
  live at once while one is rotated. An empty secret verifies nothing, since anybody could sign with it.
- A signed timestamp is at most 300 seconds from now, either way.
- Whatever is malformed is a BadSignature with its reason, never another error.

The packages `standardwebhooks` and `stripe` are not used: what is malformed makes them raise ValueError,
binascii.Error, UnicodeDecodeError or TypeError, one skips foreign characters of base64 and takes fractions of a
second, the other takes timestamps from any future. The tests hold them against this module. (A bearer token of a
sandbox, the other way in, is checked by `operations.secrets`.)

A reader is a function of a parsed request. Those of ids and types raise BadEnvelope for what cannot be a name: a name
is a text of 1 to 255 printable characters. Those of times return None for what is no time.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from webhooks.domain.deliveries import LONGEST
from webhooks.domain.parts import MOMENT
from webhooks.errors import BadEnvelope, BadSecret, BadSignature

# Headers that hold what opens something, or are of no use once the signature is checked: never stored.
_SECRET_HEADERS: Final = frozenset(
    {"authorization", "proxy-authorization", "cookie", "x-api-key", "x-auth-token"}
    | {"x-hub-signature", "x-hub-signature-256", "stripe-signature", "svix-signature", "webhook-signature"}
)
MASKED: Final = "(kept out)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request as it came: header names in lower case, the exact bytes of the body, the query's parameters."""

    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    query: Mapping[str, str] = field(default_factory=dict)

    def first_header(self, *names: str) -> str:
        return next((self.headers[name] for name in names if name in self.headers), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One live secret of a source. `id` is ours, to say later which one it was."""

    id: int
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The bytes are the sender's: which of our secrets signed them (0: none), or which `sandbox`'s token came along.
    `signed_at` is the moment that is signed with them, where the scheme has one."""

    key_id: int
    signed_at: datetime | None = None
    sandbox: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """What a verified request says about itself. `delivery_id` is the sender's own, or `sha256:` and the digest of the
    body. `occurred_at` is by the sender's clock."""

    delivery_id: str
    event_type: str
    occurred_at: datetime | None


def redacted(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers as they may be stored: what holds a secret is named and masked."""
    secret = {name for name in headers if any(word in name for word in ("secret", "token", "password"))}
    return {name: MASKED if name in _SECRET_HEADERS | secret else value for name, value in sorted(headers.items())}


TOLERANCE: Final = timedelta(seconds=300)
# Longer headers, and more candidates in one, are nobody's: senders put at most a handful of signatures side by side.
LONGEST_HEADER: Final = 2048
MOST_CANDIDATES: Final = 16
_MOST_DIGITS: Final = 12  # of seconds since 1970: the year 33658
SHORTEST_SECRET: Final = 8
_STRIPE_SECRET: Final = re.compile(r"whsec_[A-Za-z0-9_+/=-]+")
LONGEST_SECRET: Final = 255


class _TextSecret:
    """Schemes whose secret is used as it is typed, in UTF-8."""

    def check_secret(self, secret: str, *, source: str) -> None:
        """Raise BadSecret: too short, too long, or with a space at an end."""
        if not SHORTEST_SECRET <= len(secret) <= LONGEST_SECRET:
            why = f"it has {len(secret)} characters, not {SHORTEST_SECRET} to {LONGEST_SECRET}"
            raise BadSecret(source=source, reason=why)
        if secret != secret.strip() or not secret.isprintable():
            why = "it has a space at an end, or characters that are not printable"
            raise BadSecret(source=source, reason=why)


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyHmac(_TextSecret):
    """`sha256=<hex>` over the body alone: GitHub, Atlassian. Nothing else is signed: no id, no time. Of the methods
    only sha256 is accepted."""

    header: str

    def verify(self, request: Request, *, keys: Sequence[Key], now: datetime) -> Verified:  # noqa: ARG002 (undated)
        signature = _header(request, self.header.lower())
        key_id = _matching_key([signature], keys=keys, expected=lambda key: self._value(key.secret, request.body))
        return Verified(key_id=key_id)

    def sign(self, body: bytes, *, secret: str, delivery_id: str, now: datetime) -> dict[str, str]:  # noqa: ARG002
        return {self.header: self._value(secret, body).decode()}

    def new_secret(self, random_bytes: bytes) -> str:
        return random_bytes.hex()

    def _value(self, secret: str, body: bytes) -> bytes:
        return b"sha256=" + _hexadecimal(secret.encode(), body)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampedHmac(_TextSecret):
    """`t=<seconds>,v1=<hex>[,v1=..]` over `t.body`: Stripe. The secret is text, `whsec_` included; only v1 counts."""

    header: str

    def verify(self, request: Request, *, keys: Sequence[Key], now: datetime) -> Verified:
        header = _header(request, self.header.lower())
        pairs = [part.strip().partition("=") for part in header.split(",")]
        stamps = [value for name, _, value in pairs if name == "t"]
        if len(stamps) != 1:
            raise BadSignature(reason="malformed_timestamp")
        signed_at = _timestamp(stamps[0], now=now)
        signed = stamps[0].encode() + b"." + request.body
        candidates = [value for name, _, value in pairs if name == "v1"]
        key_id = _matching_key(candidates, keys=keys, expected=lambda key: _hexadecimal(key.secret.encode(), signed))
        return Verified(key_id=key_id, signed_at=signed_at)

    def sign(self, body: bytes, *, secret: str, delivery_id: str, now: datetime) -> dict[str, str]:  # noqa: ARG002
        stamp = str(int(now.timestamp()))
        signature = _hexadecimal(secret.encode(), stamp.encode() + b"." + body).decode()
        return {self.header: f"t={stamp},v1={signature}"}

    def check_secret(self, secret: str, *, source: str) -> None:
        """Raise BadSecret also for what Stripe shows beside it: the id of the endpoint, a key of its API."""
        super(TimestampedHmac, self).check_secret(secret, source=source)  # slots=True makes another class than this one
        if not _STRIPE_SECRET.fullmatch(secret):
            why = "its signing secret begins with whsec_, without quotes; we_... is an endpoint's id, sk_... an API key"
            raise BadSecret(source=source, reason=why)

    def new_secret(self, random_bytes: bytes) -> str:
        """In Stripe's form; Stripe itself makes the real ones."""
        return f"whsec_{random_bytes.hex()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StandardWebhooks:
    """Standard Webhooks 1.0.0: `v1,<base64>[ v1,<base64>]` over `id.timestamp.body`: the sandboxes, and Clerk.

    Three headers under the first prefix that is there: `-id` (the same in every try), `-timestamp` and `-signature`.
    The secret is base64 of 16 to 128 bytes, with or without `whsec_`.
    """

    prefixes: tuple[str, ...] = ("webhook",)

    def verify(self, request: Request, *, keys: Sequence[Key], now: datetime) -> Verified:
        message_id, stamp, signature = (
            _header(request, *(f"{prefix}-{part}" for prefix in self.prefixes))
            for part in ("id", "timestamp", "signature")
        )
        if "." in message_id:  # it would make two readings of what is signed
            raise BadSignature(reason="malformed_signature")
        signed_at = _timestamp(stamp, now=now)
        signed = b".".join((message_id.encode(), stamp.encode(), request.body))
        candidates = [part.removeprefix("v1,") for part in signature.split(" ") if part.startswith("v1,")]
        key_id = _matching_key(candidates, keys=keys, expected=lambda key: _base64(_key_or_empty(key.secret), signed))
        return Verified(key_id=key_id, signed_at=signed_at)

    def sign(self, body: bytes, *, secret: str, delivery_id: str, now: datetime) -> dict[str, str]:
        stamp = str(int(now.timestamp()))
        signed = b".".join((delivery_id.encode(), stamp.encode(), body))
        signature = _base64(_key(secret, source=""), signed).decode()
        values = {"id": delivery_id, "timestamp": stamp, "signature": f"v1,{signature}"}
        return {f"{self.prefixes[0]}-{part}": value for part, value in values.items()}

    def new_secret(self, random_bytes: bytes) -> str:
        return f"whsec_{base64.b64encode(random_bytes).decode()}"

    def check_secret(self, secret: str, *, source: str) -> None:
        """Raise BadSecret for what is not base64 of 16 to 128 bytes."""
        _key(secret, source=source)


Scheme = BodyHmac | TimestampedHmac | StandardWebhooks


def _header(request: Request, *names: str) -> str:
    """The first of these headers that is there. Raises BadSignature: none is, it is too long or is not ASCII."""
    value = request.first_header(*names)
    if not value:
        raise BadSignature(reason="missing_signature")
    if len(value) > LONGEST_HEADER or not value.isascii():
        raise BadSignature(reason="malformed_signature")
    return value


def _timestamp(text: str, *, now: datetime) -> datetime:
    """A timestamp in whole seconds, within the tolerance. Raises BadSignature."""
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise BadSignature(reason="malformed_timestamp")
    age_s = now.timestamp() - int(text)
    if abs(age_s) > TOLERANCE.total_seconds():
        raise BadSignature(reason="too_old" if age_s > 0 else "too_new")
    return datetime.fromtimestamp(int(text), UTC)


def _matching_key(candidates: Sequence[str], *, keys: Sequence[Key], expected: Callable[[Key], bytes]) -> int:
    """The id of the key whose expected signature is among the candidates. Raises BadSignature. Every key is tried with
    every candidate whatever came before, so that its time reveals nothing."""
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


def _hexadecimal(key: bytes, signed: bytes) -> bytes:
    """The HMAC in lower-case hex, as ASCII. Raises BadSignature for an empty key."""
    return _hmac(key, signed).hex().encode()


def _base64(key: bytes, signed: bytes) -> bytes:
    """The HMAC in base64, as ASCII. Raises BadSignature for an empty key."""
    return base64.b64encode(_hmac(key, signed))


def _hmac(key: bytes, signed: bytes) -> bytes:
    if not key:
        raise BadSignature(reason="bad_signature")
    return hmac.digest(key, signed, hashlib.sha256)


def _key_or_empty(secret: str) -> bytes:
    """The bytes to sign with; none for a secret that is none, which then verifies nothing."""
    try:
        return _key(secret, source="")
    except BadSecret:
        return b""


def _key(secret: str, *, source: str) -> bytes:
    """The key in `whsec_` and base64. Raises BadSecret."""
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        raise BadSecret(source=source, reason="what follows whsec_ must be base64") from None
    if not 16 <= len(key) <= 128:
        raise BadSecret(source=source, reason=f"it holds {len(key)} bytes, not 16 to 128")
    return key


_EARLIEST: Final = datetime(2000, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(2200, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    request: Request
    document: Any

    @property
    def body(self) -> Mapping[str, Any]:
        """The body as an object. Raises BadEnvelope."""
        if not isinstance(self.document, Mapping):
            raise BadEnvelope(reason="the body must be a JSON object")
        return self.document


NameReader = Callable[[Parsed], str]
TimeReader = Callable[[Parsed], datetime | None]


def header(*names: str) -> NameReader:
    """An id: the first of these headers that is there, else, and where none is named, the digest of the body."""

    def read(parsed: Parsed) -> str:
        value = parsed.request.first_header(*names)
        return name(value, field=names[0]) if value else f"sha256:{hashlib.sha256(parsed.request.body).hexdigest()}"

    return read


def required(field: str) -> NameReader:
    """An id: a field of the body that must be there."""
    return lambda parsed: name(parsed.body.get(field), field=field)


def optional(field: str) -> NameReader:
    """A type: a field of the body; empty where there is none: that is stored and ignored."""
    return lambda parsed: name_or_empty(parsed.body.get(field), field=field)


def moment(field: str) -> TimeReader:
    """A time: a field of the body, in ISO 8601 with a zone, or in seconds or milliseconds since 1970."""

    def read(parsed: Parsed) -> datetime | None:
        try:
            at: datetime = MOMENT.read(parsed.body.get(field))
        except ValueError:
            return None
        return at if _EARLIEST <= at <= _LATEST else None

    return read


def name(value: Any, *, field: str) -> str:
    """The value, if it is a name. Raises BadEnvelope."""
    if not isinstance(value, str) or not value:
        raise BadEnvelope(reason=f"{field} is missing")
    if len(value) > LONGEST or not value.isprintable():
        raise BadEnvelope(reason=f"{field} is longer than {LONGEST} characters, or not printable")
    return value


def name_or_empty(value: Any, *, field: str) -> str:
    """The value, if it is a name or nothing. Raises BadEnvelope."""
    return "" if value is None or value == "" else name(value, field=field)
