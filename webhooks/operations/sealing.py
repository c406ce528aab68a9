"""Secrets at rest: encrypted under a key derived from SECRET_KEY (docs/adr/0020)."""

import base64
import hashlib
import hmac
from functools import cache

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

from webhooks.errors import CannotOpen

_PURPOSE = b"jobfarm webhooks secrets v1"


def seal(secret: str) -> bytes:
    """Encrypt under the present SECRET_KEY."""
    return _box(settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS).encrypt(secret.encode())


def unseal(sealed: bytes | memoryview, *, source: str) -> str:
    """Decrypt under SECRET_KEY or one of SECRET_KEY_FALLBACKS. Raises CannotOpen."""
    try:
        opened = _box(settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS).decrypt(bytes(sealed))
    except InvalidToken:
        raise CannotOpen(source=source) from None
    return opened.decode()


def fingerprint(secret: str) -> str:
    """Twelve hex digits that tell secrets apart. Keyed, so that a weak secret cannot be looked up by them."""
    key = settings.SECRET_KEY.encode()
    return hmac.new(key, _PURPOSE + secret.encode(), hashlib.sha256).hexdigest()[:12]


@cache
def _box(*keys: str) -> MultiFernet:
    return MultiFernet([Fernet(base64.urlsafe_b64encode(_derived(key))) for key in keys])


def _derived(key: str) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=_PURPOSE).derive(key.encode())
