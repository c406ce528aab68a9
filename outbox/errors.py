"""Refusals of the app: each class states its code, its HTTP status and, as its docstring, its sentence."""

from core.refusal import Refusal


class OutboxError(Refusal):
    """The request cannot be carried out."""


class BadUrl(OutboxError):
    """This address cannot be sent to: {reason}."""

    code = "bad_url"
    http_status = 422


class BadEndpoint(OutboxError):
    """The endpoint cannot be kept: its {field}: {reason}."""

    code = "bad_endpoint"
    http_status = 422


class NotFound(OutboxError):
    """There is no such {resource}."""

    code = "not_found"
    http_status = 404


class NotAllowed(OutboxError):
    """You may look at this endpoint, not change it."""

    code = "forbidden"
    http_status = 403


class CannotReplay(OutboxError):
    """A message that waits is not sent again: it will be sent anyway."""

    code = "cannot_replay"
    http_status = 409


class CannotStop(OutboxError):
    """Too late: a batch of this replay is under way, or it is over. Ask again in a moment."""

    code = "cannot_stop"
    http_status = 409


class TooManyEndpoints(OutboxError):
    """There are {limit} endpoints of yours already, which is the most; delete one that is not needed."""

    code = "too_many_endpoints"
    http_status = 409


class CallbacksNotAllowed(OutboxError):
    """This farm sends nothing to {host}: OUTBOX_CALLBACK_HOSTS does not name it."""

    code = "callbacks_not_allowed"
    http_status = 403
