"""Refusals of the app. A class's docstring is its message, `code` is the machine's word for it."""

from typing import Any, ClassVar


class WebhooksError(Exception):
    """The request cannot be carried out."""

    code: ClassVar[str] = "refused"

    def __init__(self, **numbers: Any) -> None:
        self.numbers = numbers
        super().__init__(self.message)

    @property
    def message(self) -> str:
        """The sentence for people: the class's docstring, with this refusal's numbers filled in."""
        return " ".join((type(self).__doc__ or "").split()).format(**self.numbers)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["numbers"][name]
        except KeyError:
            raise AttributeError(name) from None


class BadPayload(WebhooksError):
    """The payload is not what its type promises: {field}: {reason}."""

    code = "bad_payload"


class BadSignature(WebhooksError):
    """The request is not signed as this address requires."""

    code = "bad_signature"

    def __init__(self, *, reason: str) -> None:
        super().__init__()
        self.reason = reason  # for our counters; the sender does not learn which part was wrong


class BadEnvelope(WebhooksError):
    """The request cannot be taken: {reason}."""

    code = "bad_envelope"


class NotJson(WebhooksError):
    """The body is not JSON that can be taken: {reason}."""

    code = "not_json"


class MethodNotAllowed(WebhooksError):
    """This address takes POST alone."""

    code = "method_not_allowed"


class UnsupportedMediaType(WebhooksError):
    """The body must be {expected}, not encoded further."""

    code = "unsupported_media_type"


class Busy(WebhooksError):
    """More comes in than can be stored just now; send it again in a moment."""

    code = "busy"


class TooSlow(WebhooksError):
    """After {seconds} s only {size} bytes of the body had come."""

    code = "too_slow"


class TooLarge(WebhooksError):
    """The body is larger than {limit} bytes."""

    code = "too_large"


class NoSecret(WebhooksError):
    """This address has no secret yet, so it takes nothing: add one with `manage.py webhooks secret add {source}`."""

    code = "no_secret"


class UnknownSource(WebhooksError):
    """There is no source {source!r}; there are: {known}."""

    code = "unknown_source"


class BadSecret(WebhooksError):
    """This cannot be a secret of {source}: {reason}."""

    code = "bad_secret"


class NotFound(WebhooksError):
    """There is no such {resource}."""

    code = "not_found"


class CannotReplay(WebhooksError):
    """A delivery that is {status} is not replayed: {reason}."""

    code = "cannot_replay"


class Undeliverable(WebhooksError):
    """Nothing answers at {url}: {reason}. Say with --url (or WEBHOOKS_OWN_URL) where this farm is."""

    code = "undeliverable"


class CannotOpen(WebhooksError):
    """A secret of {source} cannot be read: it was sealed under another SECRET_KEY. Add it anew, or name that key in
    SECRET_KEY_FALLBACKS."""

    code = "cannot_open"


class BadRule(WebhooksError):
    """The rule cannot be kept: its {field}: {reason}."""

    code = "bad_rule"


class MissingValue(WebhooksError):
    """The delivery has no {path}, which the rule needs. `{{{{ {path}? }}}}` takes null instead."""

    code = "missing_value"


class PayloadTooBig(WebhooksError):
    """The payload would have more than {limit} bytes, which is the most that a job takes."""

    code = "payload_too_big"


class CannotStart(WebhooksError):
    """No job was started: {reason}."""

    code = "cannot_start"
