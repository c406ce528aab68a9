from core.refusal import Refusal


class OutboxError(Refusal):
    """The request cannot be carried out."""


class BadUrl(OutboxError, code="bad_url", http_status=422):
    """This address cannot be sent to: {reason}."""


class BadEndpoint(OutboxError, code="bad_endpoint", http_status=422):
    """The endpoint cannot be kept: its {field}: {reason}."""


class NotFound(OutboxError, code="not_found", http_status=404):
    """There is no such {resource}."""


class NotAllowed(OutboxError, code="forbidden", http_status=403):
    """You may look at this endpoint, not change it."""


class CannotReplay(OutboxError, code="cannot_replay", http_status=409):
    """A message that waits is not sent again: it will be sent anyway."""


class CannotStop(OutboxError, code="cannot_stop", http_status=409):
    """Too late: a batch of this replay is under way, or it is over. Ask again in a moment."""


class TooManyEndpoints(OutboxError, code="too_many_endpoints", http_status=409):
    """There are {limit} endpoints of yours already, which is the most; delete one that is not needed."""


class CallbacksNotAllowed(OutboxError, code="callbacks_not_allowed", http_status=403):
    """This farm sends nothing to {host}: OUTBOX_CALLBACK_HOSTS does not name it."""
