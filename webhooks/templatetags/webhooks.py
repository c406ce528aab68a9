"""`{% load webhooks %}`: bytes, and reasons of refusals, as the pages show them."""

from typing import Final

from django import template

from webhooks.domain.names import Source

register = template.Library()

_REASONS: Final = {
    "missing_signature": "no signature",
    "malformed_signature": "a signature that is none",
    "malformed_timestamp": "a time stamp that is none",
    "bad_signature": "wrong signature",
    "bad_token": "unknown or revoked token",
    "too_old": "signed too long ago",
    "too_new": "signed in the future: a clock is off",
    "retired_secret": "signed with a retired secret",
    "no_secret": "the source has no secret",
    "too_large": "too large",
    "too_slow": "the body did not come",
    "busy": "no room for more at once",
    "unsupported_media_type": "not JSON by its media type",
}


@register.filter
def hexadecimal(value: bytes | memoryview) -> str:
    """Bytes in hexadecimal digits."""
    return bytes(value).hex()


@register.filter
def negated(number: float) -> float:
    """The number with the other sign."""
    return -number


@register.filter
def label(source: str) -> str:
    """The name of a source for people."""
    return Source(source).label


@register.filter
def reason(code: str) -> str:
    """Why a request was refused, in words; a code that has none here as it is."""
    return _REASONS.get(code, code.replace("_", " "))
