"""GitHub: `X-Hub-Signature-256` over the body alone; SHA-1 is not looked at. It never repeats by itself.

Neither the id nor the event's name is signed, so the digest of the body is a second key. A type is the event's name,
and the body's `action` where it has one: `push`, `issues.opened`. A hook that posts forms has its JSON in `payload`.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from webhooks.sources import reading, signatures
from webhooks.sources.requests import Envelope, Key, Request, Verified

PATH: Final = "/api/webhooks/github"
BODY_LIMIT: Final = 25 << 20  # GitHub's own: what is larger it does not send
MEDIA_TYPES: Final = ("application/json", "application/x-www-form-urlencoded")
OLDEST_S: Final = None
_SIGNATURE: Final = "x-hub-signature-256"


def check_secret(secret: str, /) -> None:
    """Used as it is typed. Raises BadSecret."""
    signatures.text_secret(secret, source="github")


def new_secret(random_bytes: bytes, /) -> str:
    """64 hexadecimal digits."""
    return random_bytes.hex()


def verify(request: Request, /, *, keys: Sequence[Key], now: datetime) -> Verified:  # noqa: ARG001 (nothing is dated)
    """Raises BadSignature."""
    signature = signatures.header(request, _SIGNATURE)
    matched = signatures.matching_key(
        [signature],
        keys=keys,
        expected=lambda key: b"sha256=" + signatures.hexadecimal(key.secret.encode(), request.body),
    )
    return Verified(key_id=matched)


def envelope(request: Request, document: Any, /, *, verified: Verified) -> Envelope:  # noqa: ARG001 (the protocol's)
    """Id and event are headers, the action is the body's. Raises BadEnvelope."""
    body = reading.mapping(document)
    event = reading.header_name(request, "x-github-event") or ""
    action = body.get("action")
    has_action = bool(event) and isinstance(action, str) and bool(action)
    return Envelope(
        delivery_id=reading.header_name(request, "x-github-delivery") or signatures.digest_id(request.body),
        event_type=reading.name(f"{event}.{action}", field="action") if has_action else event,
        occurred_at=None,
    )


def sign(
    body: bytes,
    /,
    *,
    secret: str,
    event_type: str,
    delivery_id: str,
    now: datetime,  # noqa: ARG001 (nothing is dated)
) -> dict[str, str]:
    """GitHub's headers; of the type only what precedes the action."""
    return {
        "X-GitHub-Event": event_type.partition(".")[0],
        "X-GitHub-Delivery": delivery_id,
        "X-Hub-Signature-256": "sha256=" + signatures.hexadecimal(secret.encode(), body).decode(),
        "User-Agent": "GitHub-Hookshot/jobfarm-test",
    }
