"""What the adapters' modules are asked, and what they answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

LONGEST_ID: Final = (
    255  # characters of a delivery id or an event type: what the database's columns and indexes take
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request as it came: header names in lower case, the exact bytes of the body, the query's parameters."""

    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    query: Mapping[str, str] = field(default_factory=dict)


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
    """What a verified request says about itself.

    `delivery_id` is the sender's own, or `sha256:` and the digest of the body. `occurred_at` is by the sender's clock.
    """

    delivery_id: str
    event_type: str
    occurred_at: datetime | None


class Adapter(Protocol):
    """One sender's module. All of it is pure: the clock is an argument, and so is what is random."""

    @property
    def PATH(self) -> str:  # noqa: N802
        """Where it posts to."""

    @property
    def BODY_LIMIT(self) -> int:  # noqa: N802
        """The most bytes it may post at once."""

    @property
    def MEDIA_TYPES(self) -> Sequence[str]:  # noqa: N802
        """The content types that it posts with."""

    @property
    def OLDEST_S(self) -> float | None:  # noqa: N802
        """How old an event may be by the time in its signed body, where nothing else bounds a replay."""

    def check_secret(self, secret: str, /) -> None:
        """Raise BadSecret for what cannot be a secret of this sender."""

    def new_secret(self, random_bytes: bytes, /) -> str:
        """A secret made of these 32 random bytes."""

    def verify(self, request: Request, /, *, keys: Sequence[Key], now: datetime) -> Verified:
        """Say which key signed these bytes, compared in constant time. Raises BadSignature with its `reason`."""

    def envelope(self, request: Request, document: Any, /, *, verified: Verified) -> Envelope:
        """Read id, type and time; `document` is the parsed body. Raises BadEnvelope."""

    def sign(
        self, body: bytes, /, *, secret: str, event_type: str, delivery_id: str, now: datetime
    ) -> dict[str, str]:
        """The headers with which the sender itself would post these bytes."""
