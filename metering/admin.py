"""Budgets and prices in the administration, where staff change them, and days of usage to look at."""

from typing import Any, Final

from django.contrib import admin
from django.http import HttpRequest
from unfold.admin import ModelAdmin

from core import administration
from metering import operations
from metering.models import Budget, Day, Model
from postgres import clock

_FIXED: Final = ("token", "person", "group", "unit", "period")


def _used(budget: Budget) -> str:
    if not budget.pk:
        return administration.NOTHING
    [balance] = operations.balances([budget], now=clock.now())
    return f"{balance.used_percent:.0f} %"


@admin.register(Budget)
class BudgetAdmin(ModelAdmin):  # type: ignore[misc]  # unfold ships no types
    list_display = ["id", "whose", "written", "period"]
    list_filter = ["unit", "period"]
    list_select_related = ["token", "person", "group"]
    search_fields = ["person__username", "group__name", "token__name"]
    fields = [("person", "group", "token"), ("amount", "unit", "period"), "used"]
    raw_id_fields = ["person", "group", "token"]

    def get_readonly_fields(self, request: HttpRequest, obj: Budget | None = None) -> tuple[str, ...]:  # noqa: ARG002
        """What is used and reserved is in its unit and windows, so these stay."""
        return (*_FIXED, "used") if obj else ("used",)

    def save_model(self, request: HttpRequest, obj: Budget, form: Any, change: bool) -> None:
        """Keep it, and let this process know; the line in the log is Django's own."""
        super().save_model(request, obj, form, change)
        operations.announce()

    def delete_model(self, request: HttpRequest, obj: Budget) -> None:
        super().delete_model(request, obj)
        operations.announce()

    whose = administration.shown("Of", lambda budget: budget.subject)
    used = administration.shown("Used", _used)
    written = administration.shown(
        "Amount", lambda row: operations.amount(row.amount, operations.Unit(row.unit)), ordering="amount"
    )


@admin.register(Model)
class ModelPricesAdmin(ModelAdmin):  # type: ignore[misc]  # unfold ships no types
    list_display = ["name", "price_in", "price_out", "note"]
    search_fields = ["name"]

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> list[str]:  # noqa: ARG002
        return ["name"] if obj else []


@admin.register(Day)
class DayAdmin(administration.ReadOnly):
    list_display = ["day", "kind", "model", "attempts", "seconds", "tokens_in", "tokens_out", "cost"]
    list_filter = ["day"]
    search_fields = ["kind", "model"]
    ordering = ["-day", "-id"]
    fields = [
        ("day", "kind", "model"), ("worker", "person", "group", "token"), ("attempts", "seconds"),
        ("tokens_in", "tokens_out", "cost"),
    ]  # fmt: skip
