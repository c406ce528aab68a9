"""A request as it came, what its signature proves, and what it says about itself.

A reader is a function of a parsed request. Those of ids and types raise BadEnvelope for what cannot be a name: a name
is a text of 1 to 255 printable characters. Those of times return None for what is no time.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from webhooks.domain.deliveries import LONGEST
from webhooks.domain.parts import MOMENT
from webhooks.errors import BadEnvelope

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
