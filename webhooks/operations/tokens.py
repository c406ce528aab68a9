"""Bearer tokens of sandboxes, for agents whose hooks cannot sign. Stored hashed, shown once."""

import hashlib
import secrets as rng
from datetime import datetime

from webhooks.errors import BadSignature
from webhooks.models import SandboxToken
from webhooks.queries import secrets as queries

PREFIX = "sbx_"
_LONGEST = 200


def create(sandbox: str, *, expires_at: datetime | None = None) -> tuple[SandboxToken, str]:
    """A new token of a sandbox: its row, and the token itself."""
    token = f"{PREFIX}{rng.token_urlsafe(32)}"
    return queries.add_token(sandbox[:100], token_hash=_hash(token), expires_at=expires_at), token


def revoke(sandbox: str) -> int:
    """Let all tokens of a sandbox open nothing any more; how many that were."""
    return queries.revoke_tokens(sandbox)


def sandbox_of(token: str) -> str:
    """The sandbox whose token this is. Raises BadSignature."""
    row = queries.live_token(_hash(token)) if len(token) <= _LONGEST else None
    if row is None:
        raise BadSignature(reason="bad_token")
    queries.note_use(SandboxToken, [row.pk])
    return row.sandbox


def _hash(token: str) -> str:
    # 256 random bits need no slow hash; and who compares hashes of them learns nothing from the time it takes.
    return hashlib.sha256(token.encode()).hexdigest()
