"""Prices, budgets with what is used and reserved of them, and what jobs used, by attempt and by day.

Foreign keys on the way of a job carry no database constraint, as there (docs/adr/0007). Amounts are exact decimals.
"""

from decimal import Decimal
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from metering.domain import MOST_AMOUNT, Period, Unit, written
from postgres.schema import loose

LONGEST_MODEL = 200
_loose = partial(loose, null=True, related_name="+")


def amount(value: Decimal, unit: Unit) -> str:
    """An amount with its unit, money in the farm's currency."""
    return written(value, unit, currency=settings.METERING["CURRENCY"])


def _amount(**options: Any) -> Any:
    return models.DecimalField(max_digits=24, decimal_places=6, **options)


class Model(models.Model):
    """What the tokens of a model cost. Changed prices count for what ends from then on."""

    name = models.CharField(
        max_length=LONGEST_MODEL, primary_key=True, help_text="As callers write it: the public name."
    )
    price_in = _amount(default=0, validators=[MinValueValidator(0)], help_text="Of a million tokens of prompts.")
    price_out = _amount(default=0, validators=[MinValueValidator(0)], help_text="Of a million tokens of answers.")
    note = models.CharField(max_length=200, default="", blank=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(name="model_prices_are_not_negative", condition=Q(price_in__gte=0, price_out__gte=0))
        ]

    def __str__(self) -> str:
        return self.name


class Budget(models.Model):
    token = models.ForeignKey(
        "accounts.ApiToken", models.CASCADE, null=True, blank=True, related_name="+", verbose_name="API token"
    )
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, null=True, blank=True, related_name="+")
    group = models.ForeignKey(Group, models.CASCADE, null=True, blank=True, related_name="+")
    unit = models.CharField(max_length=7, choices=[(unit, unit.value) for unit in Unit])
    period = models.CharField("per", max_length=5, choices=[(period, period.value) for period in Period])
    amount = _amount(validators=[MinValueValidator(0)])
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                name="budget_has_one_subject",
                condition=Q(token__isnull=False, person__isnull=True, group__isnull=True)
                | Q(token__isnull=True, person__isnull=False, group__isnull=True)
                | Q(token__isnull=True, person__isnull=True, group__isnull=False),
                violation_error_message="Of an API token, a person or a group: one of them.",
            ),
            models.CheckConstraint(
                name="budget_amount_is_within_bounds",
                condition=Q(amount__gte=0, amount__lte=MOST_AMOUNT),
                violation_error_message="From 0 to a thousand billion.",
            ),
            models.UniqueConstraint(
                name="one_budget_for_each_subject_unit_and_period",
                fields=["token", "person", "group", "unit", "period"],
                nulls_distinct=False,
                violation_error_message="There is one of this unit and period already.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.amount.normalize():,f} {self.about}"

    @property
    def about(self) -> str:
        """What it is of, whatever its amount: "tokens per day of ada"."""
        return f"{self.unit} per {self.period} of {self.subject}"

    @property
    def title(self) -> str:
        """It in a sentence: "the budget of 1,000 tokens per day of ada"."""
        return f"the budget of {amount(self.amount, Unit(self.unit))} per {self.period} of {self.subject}"

    @property
    def subject(self) -> str:
        if self.person is not None:
            return self.person.get_username()
        return f"the group {self.group.name}" if self.group is not None else f"the API token {self.token}"


class Window(models.Model):
    """What was used of a budget in one of its windows, and is reserved for jobs that have not ended."""

    pk = models.CompositePrimaryKey("budget_id", "starts_at")
    budget = models.ForeignKey(Budget, models.CASCADE, related_name="windows", db_index=False)
    starts_at = models.DateTimeField()
    used = _amount(db_default=0)
    reserved = _amount(db_default=0)


class Reservation(models.Model):
    """What is reserved of a budget for one job, until that ends."""

    pk = models.CompositePrimaryKey("job_id", "budget_id")
    job_id = models.BigIntegerField()
    budget = models.ForeignKey(Budget, models.CASCADE, related_name="reservations")
    starts_at = models.DateTimeField(help_text="Of the window it is reserved in.")
    amount = _amount()


class Settlement(models.Model):
    """What a job that ended used and had reserved, until it is added to its window: an end locks no shared row."""

    budget = models.ForeignKey(Budget, models.DO_NOTHING, related_name="+", db_constraint=False)
    starts_at = models.DateTimeField()
    used = _amount()
    reserved = _amount()


class Reading(models.Model):
    """The tokens of one attempt of a job whose kind reports them, written by the transaction that ends it."""

    pk = models.CompositePrimaryKey("job_id", "fence")
    job_id = models.BigIntegerField()
    fence = models.BigIntegerField()
    model = models.CharField(max_length=LONGEST_MODEL)
    tokens_in = models.BigIntegerField()
    tokens_out = models.BigIntegerField()
    cost = _amount()
    is_estimated = models.BooleanField(
        default=False, db_default=False, help_text="Of what it wrote: its result does not say what it used."
    )


class Day(models.Model):
    """What ended attempts used in one day, in UTC. Made by the roll-up alone."""

    day = models.DateField()
    kind = models.CharField(max_length=100)
    model = models.CharField(max_length=LONGEST_MODEL, blank=True)
    worker = _loose("jobs.Worker")
    token = _loose("accounts.ApiToken")
    person = _loose(settings.AUTH_USER_MODEL)
    group = _loose(Group)
    attempts = models.BigIntegerField()
    seconds = models.FloatField()
    tokens_in = models.BigIntegerField()
    tokens_out = models.BigIntegerField()
    cost = _amount()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="usage_of_a_day_has_one_row",
                fields=["day", "kind", "model", "worker", "token", "person", "group"],
                nulls_distinct=False,
            )
        ]
        indexes = [models.Index("person", "day", name="metering_days_of_person")]


class Watermark(models.Model):
    """Until when the roll-up has counted: one row."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    counted_until = models.DateTimeField()

    class Meta:
        constraints = [models.CheckConstraint(name="there_is_one_metering_watermark", condition=Q(id=1))]
