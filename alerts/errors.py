from core.refusal import Refusal


class BadRule(Refusal, ValueError, code="bad_rule", http_status=422):
    """This cannot be a rule: its {field} is wrong. {reason}"""


class NotFound(Refusal, LookupError, code="not_found", http_status=404):
    """There is no such rule."""


class CannotSend(Refusal, code="cannot_send"):
    """The message cannot be sent: {reason}"""
