"""Refusals of the app: each class states its code, its HTTP status and, as its docstring, its sentence."""

from core.refusal import Refusal


class AlertsError(Refusal):
    """The rule cannot be that."""


class BadRule(AlertsError, ValueError):
    """This cannot be a rule: its {field} is wrong. {reason}"""

    code = "bad_rule"
    http_status = 422


class NotFound(AlertsError, LookupError):
    """There is no such rule."""

    code = "not_found"
    http_status = 404


class RightMissing(AlertsError):
    """This takes the right {right}."""

    code = "forbidden"
    http_status = 403


class CannotSend(AlertsError):
    """The message cannot be sent: {reason}"""

    code = "cannot_send"
