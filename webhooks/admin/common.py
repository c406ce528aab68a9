"""What the administration's pages of webhooks share: who may replay and change secrets."""

from collections import Counter
from enum import StrEnum
from typing import Any, Final

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from core import administration

OPERATE: Final = "webhooks.operate_delivery"


class ChoiceFilter(admin.SimpleListFilter):
    """Rows by a column that has few values. `leads`: an index leads to the rows that fit."""

    values: type[StrEnum]
    leads: Any = True

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:  # noqa: ARG002  # the admin's
        return [(one.value, getattr(one, "label", one.value)) for one in self.values]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:  # noqa: ARG002
        value = self.value()
        return queryset.filter(**{str(self.parameter_name): value}) if value in set(self.values) else queryset


class _Operated:
    def has_operate_permission(self, request: HttpRequest, object_id: Any = None) -> bool:  # noqa: ARG002  # the admin's
        return request.user.has_perm(OPERATE)


class ReadOnly(_Operated, administration.ReadOnly):
    """A small table to look at."""


class BoundedList(_Operated, administration.BoundedList):
    """A table to look at that may hold millions of rows."""


def report(request: HttpRequest, outcomes: "Counter[str]") -> None:
    """Say how often an action came to what."""
    summary = "; ".join(f"{count:,} {outcome}" for outcome, count in outcomes.most_common())
    messages.success(request, summary or "Nothing was selected.")
