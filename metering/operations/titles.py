"""How budgets and amounts are called in sentences."""

from decimal import Decimal

from django.conf import settings

from metering.domain.budgets import Unit, written
from metering.models import Budget


def amount(value: Decimal, unit: Unit) -> str:
    """An amount with its unit, money in the farm's currency."""
    return written(value, unit, currency=settings.METERING["CURRENCY"])


def of_budget(budget: Budget) -> str:
    """A budget in a sentence: "the budget of 1,000 tokens per day of ada"."""
    return f"the budget of {amount(budget.amount, Unit(budget.unit))} per {budget.period} of {budget.subject}"


def capital(title: str) -> str:
    """The same at the beginning of one."""
    return f"{title[:1].upper()}{title[1:]}"
