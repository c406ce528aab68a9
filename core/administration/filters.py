"""Filters of lists whose choices cost nothing: no DISTINCT, no count, no hierarchy of dates over a whole table."""

from collections.abc import Callable, Collection, Iterable
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from postgres import clock, statements

SAMPLED_ROWS: Final = 1000  # rows whose values are offered as choices
_DAYS: Final = {"today": (0, 1), "yesterday": (1, 1), "week": (6, 7)}  # how many days ago it begins, how many it has
_TITLES: Final = {"today": "Today", "yesterday": "Yesterday", "week": "Seven days"}

_FIRST, _LAST = date(1970, 1, 1), date(9000, 1, 1)  # others have no day or minute before or after them


class _ByValue(admin.SimpleListFilter):
    leads = False  # whether an index leads to the rows that fit

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:  # noqa: ARG002  # the admin's
        value = self.value()
        return queryset.filter(**{str(self.parameter_name): value}) if value else queryset


def known(
    title: str, column: str, names: Callable[[], Iterable[str]], *, leads: bool = False
) -> type[admin.SimpleListFilter]:
    """A filter by names that are read from their own small table: DISTINCT would read all rows. `leads`: the column and
    the primary key have an index, so that whatever fits is found however old it is."""

    class Known(_ByValue):
        def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:  # noqa: ARG002
            values = list(names())
            if (chosen := self.value()) and chosen not in values:  # an address may name what is gone
                values.append(chosen)
            return [(name, name) for name in values]

    Known.title, Known.parameter_name, Known.leads = title, column, leads
    return Known


def recent(column: str, title: str = "") -> type[admin.SimpleListFilter]:
    """A filter by the values that a column has in the newest SAMPLED_ROWS rows."""

    class Recent(_ByValue):
        def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:  # noqa: ARG002
            rows = model_admin.model.objects.order_by("-pk").values_list(column, flat=True)[:SAMPLED_ROWS]
            values = {str(value) for value in rows if value}
            chosen = self.value()
            return [(value, value) for value in sorted(values | ({chosen} if chosen else set()))]

        def has_output(self) -> bool:
            """Also where only one value is left: an address that names another one must go on working."""
            return bool(self.lookup_choices)

    Recent.title, Recent.parameter_name = title or column.replace("_", " "), column
    return Recent


def among(column: str, values: type[StrEnum], *, led: Collection[str] | None = None) -> type[admin.SimpleListFilter]:
    """A filter by a column that has few values. `led`: those to whose rows an index leads; None: all."""

    class Among(_ByValue):
        def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:  # noqa: ARG002
            return [(one.value, getattr(one, "label", one.value.replace("_", " "))) for one in values]

        @property
        def leads(self) -> bool:  # type: ignore[override]
            return self.value() in set(values if led is None else led)

        def value(self) -> str | None:
            """What was chosen; None for what is no choice."""
            value = super().value()
            return value if value in set(values) else None

    Among.title = Among.parameter_name = column
    return Among


def by_flag(column: str, title: str) -> type[admin.SimpleListFilter]:
    """A filter by yes and no of a value that is no column of its own: a field of a document."""

    class Flag(admin.SimpleListFilter):
        def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:  # noqa: ARG002
            return [("yes", "Yes"), ("no", "No")]

        def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:  # noqa: ARG002
            value = self.value()
            return queryset.filter(**{column: value == "yes"}) if value in {"yes", "no"} else queryset

    Flag.title, Flag.parameter_name = title, column
    return Flag


class _ByDay(admin.SimpleListFilter):
    """Days in UTC: today, yesterday, a week, or any one of them."""

    template = "admin/day_filter.html"
    column: str
    leads: bool  # by the ids of the days, so that whatever fits is found however old it is

    @property
    def day(self) -> str:
        chosen = self.value() or ""
        return "" if chosen in _DAYS else chosen

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:  # noqa: ARG002
        return list(_TITLES.items())

    def choices(self, changelist: Any) -> Any:
        """The choices, and for the field what else the address says."""
        own = {str(self.parameter_name), "p", "before"}
        carried = {key: value for key, value in changelist.params.items() if key not in own}
        for choice in super().choices(changelist):
            yield {**choice, "carried": carried}

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:  # noqa: ARG002
        """The rows of these days; all of them where the value says no day."""
        if self._span is None:
            return queryset
        since, until = self._span
        rows = queryset.filter(**{f"{self.column}__gte": since, f"{self.column}__lt": until})
        if not self.leads:
            return rows
        first, end = statements.ids_between(rows.model._meta.db_table, self.column, since, until)
        return rows.filter(pk__gte=first, pk__lt=end)

    @cached_property
    def _span(self) -> tuple[datetime, datetime] | None:
        value = self.value() or ""
        try:
            ago, days = _DAYS.get(value, (0, 1))
            first = clock.now().date() - timedelta(days=ago) if value in _DAYS else date.fromisoformat(value)
        except ValueError:
            return None
        since = datetime.combine(first, time(), UTC)
        return (since, since + timedelta(days=days)) if _FIRST <= first < _LAST else None


def by_day(column: str, *, leads: bool = False) -> type[admin.SimpleListFilter]:
    """A filter by the day of a column, in place of a date hierarchy, which reads the whole table for its choices. Of a
    column that grows together with the ids it `leads`: it finds a day by its ids."""

    name = column.rpartition("__")[2]
    title = name.removesuffix("_at").replace("_", " ")
    own = {"title": title, "parameter_name": f"{name}_day", "column": column, "leads": leads}
    return type("ByDay", (_ByDay,), own)
