"""Filters of lists whose choices cost nothing: no DISTINCT, no count, no hierarchy of dates over a whole table."""

from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from typing import Any, Final

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from postgres import clock

SAMPLED_ROWS: Final = 1000  # rows whose values are offered as choices
_DAYS: Final = {"today": (0, 1), "yesterday": (1, 1), "week": (6, 7)}  # how many days ago it begins, how many it has
_TITLES: Final = {"today": "Today", "yesterday": "Yesterday", "week": "Seven days"}

_FIRST, _LAST = date(1970, 1, 1), date(9000, 1, 1)  # others have no day or minute before or after them

Moment = Callable[[datetime], int]


class _ByValue(admin.SimpleListFilter):
    leads = False  # whether an index leads to the rows that fit

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:  # noqa: ARG002  # the admin's
        value = self.value()
        return queryset.filter(**{str(self.parameter_name): value}) if value else queryset


def known(
    title: str, column: str, names: Callable[[], Iterable[str]], *, leads: bool = False
) -> type[admin.SimpleListFilter]:
    """A filter by names that are read from their own small table: DISTINCT would read all rows.

    `leads`: the column and the primary key have an index, so that whatever fits is found however old it is.
    """

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
    first_since: Moment | None
    end_before: Moment | None

    @property
    def leads(self) -> bool:
        """Whether the ids of the days are known, so that whatever fits is found however old it is."""
        return self.first_since is not None

    @property
    def day(self) -> str:
        chosen = self.value() or ""
        return "" if chosen in _DAYS else chosen

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:  # noqa: ARG002
        """What may be chosen without a calendar."""
        return list(_TITLES.items())

    def choices(self, changelist: Any) -> Any:
        """The choices, and for the field what else the address says."""
        carried = {key: value for key, value in changelist.params.items() if key not in self._own}
        for choice in super().choices(changelist):
            yield {**choice, "carried": carried}

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:  # noqa: ARG002
        """The rows of these days; all of them where the value says no day."""
        if self._span is None:
            return queryset
        since, until = self._span
        rows = queryset.filter(**{f"{self.column}__gte": since, f"{self.column}__lt": until})
        return rows.filter(pk__gte=self._ids[0], pk__lt=self._ids[1]) if self._ids else rows

    @property
    def _own(self) -> set[str]:
        return {str(self.parameter_name), "p", "before"}

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

    @cached_property
    def _ids(self) -> tuple[int, int] | None:
        if self.first_since is None or self.end_before is None or self._span is None:
            return None
        since, until = self._span
        # staticmethod would be lost by assignment, so the functions are read from the class.
        return type(self).first_since(since), type(self).end_before(until)  # type: ignore[misc]


def by_day(
    column: str, *, first_since: Moment | None = None, end_before: Moment | None = None
) -> type[admin.SimpleListFilter]:
    """A filter by the day of a column, in place of a date hierarchy, which reads the whole table for its choices.

    With functions that say from which id, and before which, everything of a moment lies, it finds a day by its ids.
    """

    class ByDay(_ByDay):
        pass

    name = column.rpartition("__")[2]
    ByDay.title, ByDay.parameter_name = name.removesuffix("_at").replace("_", " "), f"{name}_day"
    ByDay.column, ByDay.first_since, ByDay.end_before = column, first_since, end_before
    return ByDay
