"""What a verified request says about itself, or why that cannot be read."""

import hashlib
from dataclasses import dataclass
from typing import Final

from webhooks.domain import bodies
from webhooks.domain.names import Source
from webhooks.errors import BadEnvelope, NotJson
from webhooks.sources.configs import config_of
from webhooks.sources.requests import Envelope, Request, Verified

_LONGEST_REASON: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The envelope of a request, and its body's digest. `rejected`: why the body cannot be read; then the envelope has
    nothing but an id made of the digest."""

    envelope: Envelope
    digest: bytes
    rejected: str | None


def opened(source: Source, request: Request, *, verified: Verified) -> Opened:
    """Parse a verified body, and read its envelope. Of large bodies this takes seconds (`http.child_process`)."""
    digest = hashlib.sha256(request.body).digest()
    try:
        document = bodies.parse(request.body, content_type=request.headers.get("content-type", "")).document
        envelope = config_of(source).envelope(request, document, verified=verified)
    except (NotJson, BadEnvelope) as error:
        unread = Envelope(delivery_id=f"sha256:{digest.hex()}", event_type="", occurred_at=None)
        return Opened(envelope=unread, digest=digest, rejected=error.message[:_LONGEST_REASON])
    return Opened(envelope=envelope, digest=digest, rejected=None)
