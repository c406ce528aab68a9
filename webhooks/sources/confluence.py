"""Confluence: Data Center signs as Jira does; from the Cloud a relay of one's own signs in the same way.

It sends no id: the digest of the body is the id. A type is the body's `event`, else the address's `?event=`, since
bodies of the Cloud do not name it, else what the body looks like. `{"test": true}` is Data Center's handshake.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from webhooks.sources import atlassian, reading, signatures
from webhooks.sources.requests import Envelope, Key, Request, Verified

PATH: Final = "/api/webhooks/confluence"
BODY_LIMIT: Final = 5 << 20
MEDIA_TYPES: Final = ("application/json",)
OLDEST_S: Final = atlassian.OLDEST_S
# A comment's body names its page too, so the more particular comes first.
_RESOURCES: Final = ("comment", "attachment", "blog", "page", "space")


def check_secret(secret: str, /) -> None:
    """Used as it is typed. Raises BadSecret."""
    signatures.text_secret(secret, source="confluence")


def new_secret(random_bytes: bytes, /) -> str:
    """64 hexadecimal digits."""
    return random_bytes.hex()


def verify(request: Request, /, *, keys: Sequence[Key], now: datetime) -> Verified:  # noqa: ARG001 (the body is dated)
    """Raises BadSignature."""
    return atlassian.verify(request, keys=keys)


def envelope(request: Request, document: Any, /, *, verified: Verified) -> Envelope:  # noqa: ARG001 (the protocol's)
    """Read the body; of the address only the event. Raises BadEnvelope."""
    body = reading.mapping(document)
    named = body.get("event") or request.query.get("event") or _inferred(body)
    return Envelope(
        delivery_id=signatures.digest_id(request.body),
        event_type=reading.event(named, field="event"),
        occurred_at=reading.milliseconds(body.get("timestamp")),
    )


def sign(
    body: bytes,
    /,
    *,
    secret: str,
    event_type: str,  # noqa: ARG001 (in the body, or in the address)
    delivery_id: str,  # noqa: ARG001 (there is none)
    now: datetime,  # noqa: ARG001 (the body is dated)
) -> dict[str, str]:
    """Confluence's headers."""
    return atlassian.sign(body, secret=secret)


def _inferred(body: Mapping[str, Any]) -> str:
    if body.get("test") is True:
        return "test"
    for resource in _RESOURCES:
        if isinstance(body.get(resource), Mapping):
            version = body[resource].get("version")
            return f"{resource}_created" if version == 1 else f"{resource}_updated"
    return ""
