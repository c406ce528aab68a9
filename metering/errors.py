"""Refusals of the app: each class states its code, its HTTP status and, as its docstring, its sentence."""

from core.refusal import Refusal


class OverBudget(Refusal):
    """A budget has no room for this job."""


class BudgetExhausted(OverBudget, code="budget_exhausted", http_status=429):
    """{budget} has no room for this job: about {needed} are needed and {left} are left. There is room from {until} on;
    with X-Wait: 1 the job waits until then."""


class ExceedsBudget(OverBudget, code="exceeds_budget", http_status=422):
    """{budget} never has room for this job: about {needed} are needed."""


class BadBudget(Refusal, code="invalid", http_status=422):
    """{field}: {reason}"""


class NotFound(Refusal, code="not_found", http_status=404):
    """There is no such budget."""
