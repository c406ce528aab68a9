"""A request as it came, what its signature proves, and what it says about itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

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
    """The bytes are the sender's. `signed_at` is the moment that is signed with them, where the scheme has one."""

    key_id: int
    signed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """What a verified request says about itself. `delivery_id` is the sender's own, or `sha256:` and the digest of the
    body. `occurred_at` is by the sender's clock."""

    delivery_id: str
    event_type: str
    occurred_at: datetime | None


def redacted(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers as they may be stored: what holds a secret is named and masked."""
    return {name: MASKED if _is_secret(name) else value for name, value in sorted(headers.items())}


def _is_secret(name: str) -> bool:
    return name in _SECRET_HEADERS or any(word in name for word in ("secret", "token", "password"))
