"""Refusals of the app: each class states its code, its HTTP status and, as its docstring, its sentence."""

from core.refusal import Refusal


class WebhooksError(Refusal):
    """The request cannot be carried out."""


class BadPayload(WebhooksError):
    """The payload is not what its type promises: {field}: {reason}."""

    code = "bad_payload"
    http_status = 422


class BadSignature(WebhooksError):
    """The request is not signed as this address requires."""

    code = "bad_signature"
    http_status = 401

    def __init__(self, *, reason: str) -> None:
        super().__init__()
        self.reason = reason  # for our counters; the sender does not learn which part was wrong


class BadEnvelope(WebhooksError):
    """The request cannot be taken: {reason}."""

    code = "bad_envelope"
    http_status = 400


class NotJson(WebhooksError):
    """The body is not JSON that can be taken: {reason}."""

    code = "not_json"
    http_status = 400


class MethodNotAllowed(WebhooksError):
    """This address accepts POST only."""

    code = "method_not_allowed"
    http_status = 405


class UnsupportedMediaType(WebhooksError):
    """The body must be {expected}, not encoded further."""

    code = "unsupported_media_type"
    http_status = 415


class Busy(WebhooksError):
    """More is arriving than can be stored now: send it again in a moment."""

    code = "busy"
    http_status = 503
    retry_after_s = 1


class TooSlow(WebhooksError):
    """After {seconds} s only {size} bytes of the body had arrived."""

    code = "too_slow"
    http_status = 408


class TooLarge(WebhooksError):
    """The body is larger than {limit} bytes."""

    code = "too_large"
    http_status = 413


class NoSecret(WebhooksError):
    """This address has no secret yet, so it refuses everything: add one with `webhooks secret add {source}`."""

    code = "no_secret"
    http_status = 503
    retry_after_s = 300


class UnknownSource(WebhooksError):
    """There is no source {source!r}; there are: {known}."""

    code = "unknown_source"
    http_status = 404


class BadSecret(WebhooksError):
    """This cannot be a secret of {source}: {reason}."""

    code = "bad_secret"
    http_status = 422


class NotFound(WebhooksError):
    """There is no such {resource}."""

    code = "not_found"
    http_status = 404


class CannotReplay(WebhooksError):
    """A delivery that is {status} is not replayed: {reason}."""

    code = "cannot_replay"
    http_status = 409


class Undeliverable(WebhooksError):
    """Nothing answers at {url}: {reason}. Say with --url (or JOBFARM_URL) where this farm is."""

    code = "undeliverable"
    http_status = 502


class CannotOpen(WebhooksError):
    """A secret of {source} cannot be read: it was encrypted under another SECRET_KEY. Add it again, or name that key in
    SECRET_KEY_FALLBACKS."""

    code = "cannot_open"
    http_status = 503
    retry_after_s = 300


class BadRule(WebhooksError):
    """The rule cannot be saved: its {field}: {reason}."""

    code = "bad_rule"
    http_status = 422


class MissingValue(WebhooksError):
    """The delivery has no {path}, which the rule needs. `{{{{ {path}? }}}}` uses null instead."""

    code = "missing_value"
    http_status = 422


class PayloadTooBig(WebhooksError):
    """The payload would have more than {limit} bytes, which is the most that a job takes."""

    code = "payload_too_big"
    http_status = 422


class CannotStart(WebhooksError):
    """No job was started: {reason}."""

    code = "cannot_start"
    http_status = 409
