"""Secrets of sources: several may live at once, so that a sender is moved from one to the next without a gap.

At rest they are encrypted under a key derived from SECRET_KEY (docs/adr/0020).
"""

import secrets as rng
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from django.contrib.auth.models import User
from django.db import transaction

from core import audit
from core.sealing import CannotUnseal, Sealer
from live import operations as live
from postgres import clock
from webhooks.domain.names import Source
from webhooks.errors import BadSecret, CannotOpen, NotFound
from webhooks.models import Secret
from webhooks.queries import secrets as queries
from webhooks.sources import configs
from webhooks.sources.requests import Key

# How long a process believes what it knows. Nothing is accepted on that alone: storing a delivery checks that its
# secret lives (sql/keep.sql), and what no known secret signed is retried with fresh ones.
KEPT_S = 60.0
_SECRET_BYTES = 32
_SEALER: Final = Sealer(b"jobfarm webhooks secrets v1")


class Keyring:
    """The live secrets, as this process knows them."""

    def __init__(self) -> None:
        self._keys: Mapping[str, Sequence[Key]] | None = None
        self._read_at = 0.0
        self._reading = threading.Lock()

    def known(self, source: Source) -> Sequence[Key] | None:
        """The keys of a source, newest first, without asking anybody; None if that was too long ago."""
        if self._keys is None or time.monotonic() - self._read_at > KEPT_S:
            return None
        return self._keys.get(source, ())

    def read(self, source: Source) -> Sequence[Key]:
        """The keys of a source as the database has them now. Raises CannotOpen."""
        with self._reading:
            begun_at = time.monotonic()
            keys: dict[str, list[Key]] = {}
            for row in queries.live():
                key = Key(id=row.pk, secret=unseal(row.sealed, source=row.source))
                keys.setdefault(row.source, []).append(key)
            self._keys, self._read_at = keys, begun_at
            return keys.get(source, ())


keyring = Keyring()


def add(source: Source, secret: str | None = None, *, name: str = "", by: User | None = None) -> tuple[Secret, str]:
    """Let a source sign with one more secret; the row, and the secret itself, which was made up if none was given.

    Raises BadSecret: it is not of the sender's form, or lives already.
    """
    scheme = configs.config_of(source).scheme
    plaintext = secret if secret is not None else scheme.new_secret(rng.token_bytes(_SECRET_BYTES))
    scheme.check_secret(plaintext, source=source)
    fingerprint = _SEALER.fingerprint(plaintext)
    with transaction.atomic():
        if queries.is_live(source, fingerprint=fingerprint):
            raise BadSecret(source=source, reason="the source has it already")
        row = queries.add(source, name=name[:100], sealed=_SEALER.seal(plaintext), fingerprint=fingerprint)
        audit.record(by, row, f"Added the secret {fingerprint} of {source}")
        _touch(source)
    return row, plaintext


def retire(secret: int, *, grace: timedelta = timedelta(0), by: User | None = None) -> Secret:
    """Let a secret open nothing any more, at once or after a while. Raises NotFound."""
    with transaction.atomic():
        row = queries.lock(secret)
        if row is None:
            raise NotFound(resource="secret")
        queries.retire([secret], at=clock.now() + grace)
        audit.record(by, row, f"Retired the secret {row.fingerprint} of {row.source}{_after(grace)}")
        _touch(row.source)
    row.refresh_from_db()
    return row


def rotate(
    source: Source,
    secret: str | None = None,
    *,
    grace: timedelta = timedelta(hours=24),
    name: str = "",
    by: User | None = None,
) -> tuple[Secret, str]:
    """Add a secret, and retire those that lived before after a while. As `add`; Stripe's own grace is up to a day."""
    with transaction.atomic():
        before = [row.pk for row in queries.live().filter(source=source)]
        row, plaintext = add(source, secret, name=name, by=by)
        queries.retire(before, at=clock.now() + grace)
        if before:
            audit.record(by, row, f"Retired {len(before)} earlier secrets of {source}{_after(grace)}")
    return row, plaintext


def newest(source: Source) -> str:
    """The secret to sign a test delivery with. Raises NotFound, CannotOpen."""
    row = queries.live().filter(source=source).first()
    if row is None:
        raise NotFound(resource=f"secret of {source}")
    return unseal(row.sealed, source=source)


def _touch(source: str) -> None:
    live.touch("webhook-secrets", f"webhook-source:{source}")


def _after(grace: timedelta) -> str:
    return f", after {grace}" if grace else ""


def unseal(sealed: bytes | memoryview, *, source: str) -> str:
    """Decrypt under SECRET_KEY or one of SECRET_KEY_FALLBACKS. Raises CannotOpen."""
    try:
        return _SEALER.unseal(sealed)
    except CannotUnseal:
        raise CannotOpen(source=source) from None
