"""`{% load webhooks %}`: badges, bytes, and reasons of refusals, as the pages show them."""

from typing import Final

from django import template

from live.templatetags.words import badges
from webhooks.domain.deliveries import Outcome, Source, Status

register = template.Library()

_REASONS: Final = {
    "missing_signature": "no signature",
    "malformed_signature": "malformed signature",
    "malformed_timestamp": "malformed timestamp",
    "bad_signature": "wrong signature",
    "bad_token": "unknown or revoked token",
    "too_old": "signed too long ago",
    "too_new": "signed in the future: the clocks differ",
    "retired_secret": "signed with a retired secret",
    "no_secret": "the source has no secret",
    "too_large": "too large",
    "too_slow": "the body did not arrive in time",
    "busy": "too many requests at once",
    "unsupported_media_type": "the media type is not JSON",
}
_ATTEMPTS: Final = {Outcome.PROCESSED: "success", Outcome.FAILED: "failed", Outcome.REJECTED: "failed"}
delivery_badge = badges(register, "delivery_badge", {
    Status.RECEIVED: ("pending", "received"),
    Status.PROCESSED: ("success", "processed"),
    Status.IGNORED: ("off", "ignored"),
    Status.FAILED: ("timed_out", "failed, will be retried"),
    Status.DEAD: ("failed", "dead"),
    Status.REJECTED: ("failed", "rejected"),
})  # fmt: skip
# Whether a source can deliver.
badges(register, "source_badge", {
    "ready": ("on", "ready"),
    "unreadable": ("failed", "unreadable secret"),
    "needs_secret": ("off", "needs a secret"),
})  # fmt: skip


@register.filter
def attempt_status(outcome: str) -> str:
    """The status whose colour an attempt has that ended like this; none if it was ignored."""
    return _ATTEMPTS.get(Outcome(outcome), "")


@register.filter
def hexadecimal(value: bytes | memoryview) -> str:
    return bytes(value).hex()


@register.filter
def negated(number: float) -> float:
    return -number


@register.filter
def label(source: str) -> str:
    return Source(source).label


@register.filter
def reason(code: str) -> str:
    return _REASONS.get(code, code.replace("_", " "))
