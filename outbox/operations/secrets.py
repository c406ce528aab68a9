"""Secrets of endpoints: made here, shown once, rotated with an overlap in which both sign."""

import secrets as rng
from collections.abc import Collection
from contextlib import suppress
from datetime import timedelta
from typing import Final

from core.sealing import CannotUnseal, Sealer
from outbox import queries
from outbox.domain import signatures
from outbox.errors import BadEndpoint
from outbox.models import Endpoint
from postgres import clock

OVERLAP: Final = timedelta(hours=24)
MOST: Final = 5  # of an endpoint sign at once: each is in the headers of every message
_SEALER: Final = Sealer(b"jobfarm outbox secrets v1")


def add(endpoint: Endpoint, secret: str | None = None) -> str:
    """Let an endpoint's messages be signed with one more secret; the secret, a random one if it is None. In the
    caller's transaction. Raises BadEndpoint."""
    plaintext = signatures.secret_of(rng.token_bytes(signatures.SECRET_BYTES)) if secret is None else secret
    try:
        signatures.key_of(plaintext)
    except ValueError as error:
        raise BadEndpoint(field="secret", reason=str(error)) from None
    endpoint.secrets.create(sealed=_SEALER.seal(plaintext), fingerprint=_SEALER.fingerprint(plaintext))
    return plaintext


def rotate(endpoint: Endpoint, secret: str | None = None, *, overlap: timedelta = OVERLAP) -> str:
    """Add a secret; those that lived before sign along for so long, and no more: of many the newest alone. As `add`."""
    now = clock.now()
    queries.retire_secrets(endpoint.pk, at=now + overlap)
    queries.retire_secrets(endpoint.pk, at=now, but=MOST - 1)
    return add(endpoint, secret)


def of(endpoint_ids: Collection[int]) -> dict[int, list[str]]:
    """What messages to these endpoints are signed with now, the newest first. One that nobody can open is left out."""
    opened: dict[int, list[str]] = {pk: [] for pk in endpoint_ids}
    for row in queries.live_secrets(endpoint_ids):
        with suppress(CannotUnseal):
            opened[row.endpoint_id].append(_SEALER.unseal(row.sealed))
    return opened
