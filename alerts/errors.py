from core.refusal import Refusal


class AlertsError(Refusal):
    """The rule cannot be that."""


class BadRule(AlertsError, ValueError, code="bad_rule", http_status=422):
    """This cannot be a rule: its {field} is wrong. {reason}"""


class NotFound(AlertsError, LookupError, code="not_found", http_status=404):
    """There is no such rule."""


class CannotSend(AlertsError, code="cannot_send"):
    """The message cannot be sent: {reason}"""
