"""Secrets that must be read again, encrypted at rest under keys derived from SECRET_KEY (docs/adr/0020)."""

import base64
import hashlib
import hmac
from dataclasses import dataclass
from functools import cache

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings


class CannotUnseal(Exception):
    """It was sealed under another SECRET_KEY, and that one is not among SECRET_KEY_FALLBACKS."""


@dataclass(frozen=True, slots=True)
class Sealer:
    """Seals for one purpose: what was sealed for one is not opened for another."""

    purpose: bytes

    def seal(self, secret: str) -> bytes:
        return self._box().encrypt(secret.encode())

    def unseal(self, sealed: bytes | memoryview) -> str:
        """Decrypt under SECRET_KEY or one of SECRET_KEY_FALLBACKS. Raises CannotUnseal."""
        try:
            return self._box().decrypt(bytes(sealed)).decode()
        except InvalidToken:
            raise CannotUnseal from None

    def opens(self, sealed: bytes | memoryview) -> bool:
        try:
            self.unseal(sealed)
        except CannotUnseal:
            return False
        return True

    def fingerprint(self, secret: str) -> str:
        """Twelve hex digits that identify a secret. Keyed, so that a weak secret cannot be looked up by them."""
        key = settings.SECRET_KEY.encode()
        return hmac.new(key, self.purpose + secret.encode(), hashlib.sha256).hexdigest()[:12]

    def _box(self) -> MultiFernet:
        return _box(self.purpose, settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)


@cache
def _box(purpose: bytes, *keys: str) -> MultiFernet:
    derived = [HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(key.encode()) for key in keys]
    return MultiFernet([Fernet(base64.urlsafe_b64encode(key)) for key in derived])
