from core.refusal import Refusal


class WebhooksError(Refusal):
    """The request cannot be carried out."""


class BadPayload(WebhooksError, code="bad_payload", http_status=422):
    """The payload is not what its type promises: {field}: {reason}."""


class BadSignature(WebhooksError, code="bad_signature", http_status=401):
    """The request is not signed as this address requires."""

    def __init__(self, *, reason: str) -> None:
        super().__init__()
        self.reason = reason  # for our counters; the sender does not learn which part was wrong


class BadEnvelope(WebhooksError, code="bad_envelope", http_status=400):
    """The request cannot be taken: {reason}."""


class NotJson(WebhooksError, code="not_json", http_status=400):
    """The body is not JSON that can be taken: {reason}."""


class MethodNotAllowed(WebhooksError, code="method_not_allowed", http_status=405):
    """This address accepts POST only."""


class UnsupportedMediaType(WebhooksError, code="unsupported_media_type", http_status=415):
    """The body must be {expected}, not encoded further."""


class Busy(WebhooksError, code="busy", http_status=503):
    """More is arriving than can be stored now: send it again in a moment."""

    retry_after_s = 1


class TooSlow(WebhooksError, code="too_slow", http_status=408):
    """After {seconds} s only {size} bytes of the body had arrived."""


class TooLarge(WebhooksError, code="too_large", http_status=413):
    """The body is larger than {limit} bytes."""


class NoSecret(WebhooksError, code="no_secret", http_status=503):
    """This address has no secret yet, so it refuses everything: add one on its page, or by
    `webhooks secret add {source}`."""

    retry_after_s = 300


class UnknownSource(WebhooksError, code="unknown_source", http_status=404):
    """There is no source {source!r}; there are: {known}."""


class BadSecret(WebhooksError, code="bad_secret", http_status=422):
    """This cannot be a secret of {source}: {reason}."""


class NotFound(WebhooksError, code="not_found", http_status=404):
    """There is no such {resource}."""


class CannotReplay(WebhooksError, code="cannot_replay", http_status=409):
    """A delivery that is {status} is not replayed: {reason}."""


class NotAllowed(WebhooksError, code="forbidden", http_status=403):
    """Whoever started this replay may replay no deliveries any more."""


class Undeliverable(WebhooksError, code="undeliverable", http_status=502):
    """Nothing answers at {url}: {reason}. Say with --url (or JOBFARM_URL) where this farm is."""


class CannotOpen(WebhooksError, code="cannot_open", http_status=503):
    """A secret of {source} cannot be read: it was encrypted under another SECRET_KEY. Add it again, or name that key in
    SECRET_KEY_FALLBACKS."""

    retry_after_s = 300


class BadRule(WebhooksError, code="bad_rule", http_status=422):
    """The rule cannot be saved: its {field}: {reason}."""


class CannotStart(WebhooksError, code="cannot_start", http_status=409):
    """No job was started: {reason}."""
