"""What Jira and Confluence share: `X-Hub-Signature` with its method in front, of which only sha256 is taken."""

from collections.abc import Sequence
from typing import Final

from webhooks.sources import signatures
from webhooks.sources.requests import Key, Request, Verified

# Nothing is dated but the body, which is signed: repeats come within 75 minutes, and people resend within the day.
OLDEST_S: Final = 24 * 3600.0


def verify(request: Request, *, keys: Sequence[Key]) -> Verified:
    """Find the key that signed. Raises BadSignature."""
    signature = signatures.header(request, "x-hub-signature")
    matched = signatures.matching_key(
        [signature],
        keys=keys,
        expected=lambda key: b"sha256=" + signatures.hexadecimal(key.secret.encode(), request.body),
    )
    return Verified(key_id=matched)


def sign(body: bytes, *, secret: str) -> dict[str, str]:
    """The header of the signature."""
    return {
        "X-Hub-Signature": "sha256=" + signatures.hexadecimal(secret.encode(), body).decode(),
        "User-Agent": "Atlassian Webhook HTTP Client",
    }
