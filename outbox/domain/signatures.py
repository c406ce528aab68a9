"""What an endpoint is, the schemes by which it is reached, and how a message to it is signed (Standard Webhooks)."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from outbox.domain import addresses
from outbox.domain.messages import ALL, OF_PEOPLE, PATTERNS
from outbox.errors import BadEndpoint

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """`check(url)` raises BadUrl; `take(url, event, message_id=, owner=)` does, in a transaction of its own, what is to
    be done about an event, the object that others are sent; a Refusal is why it is for nobody."""

    check: Callable[[str], None]
    take: Callable[..., None]


_SCHEMES: dict[str, Scheme] = {}


def register_scheme(name: str, *, check: Callable[[str], None], take: Callable[..., None]) -> None:
    """Let what is sent to `name:...` be taken so. To be called where an app is loaded, in its `hooks.py`."""
    _SCHEMES[name] = Scheme(check=check, take=take)


def scheme_of(url: str) -> Scheme | None:
    return _SCHEMES.get(url.partition(":")[0])


LONGEST_NAME = 100
LEAST_PER_MINUTE = 0.001  # some more than one a day


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """An endpoint as its owner wants it. Raises BadEndpoint, and BadUrl for an address that cannot be sent to."""

    name: str
    url: str = field(repr=False)
    events: Sequence[str] = ("job.*",)
    kinds: Sequence[str] = ()
    with_result: bool = False
    per_minute: float | None = None

    def __post_init__(self) -> None:
        scheme = scheme_of(self.url)
        (scheme.check if scheme else addresses.host_of)(self.url)
        unknown = sorted(set(self.events) - set(PATTERNS))
        if not self.name.strip() or len(self.name) > LONGEST_NAME or "\x00" in self.name:
            raise BadEndpoint(field="name", reason=f"from 1 to {LONGEST_NAME} characters")
        if unknown or not self.events:
            raise BadEndpoint(field="events", reason=f"there is no type {unknown[0]}" if unknown else "name one")
        if any(not 0 < len(kind) <= 100 or "\x00" in kind for kind in self.kinds) or len(self.kinds) > 100:
            raise BadEndpoint(field="kinds", reason="at most 100 names of kinds")
        if self.per_minute is not None and not LEAST_PER_MINUTE <= self.per_minute <= 1e9:
            raise BadEndpoint(field="per_minute", reason=f"a number of at least {LEAST_PER_MINUTE}")

    def for_member(self) -> None:
        """Raise BadEndpoint for events that are nobody's own: they go to endpoints of the whole farm."""
        of_farm = [one for one in self.events if one not in {ALL, *OF_PEOPLE}]
        if of_farm:
            raise BadEndpoint(field="events", reason=f"{of_farm[0]} goes to endpoints of the whole farm alone")


FIELDS: Final = tuple(Wanted.__dataclass_fields__)
