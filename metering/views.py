"""The page of usage: jobs, tokens and money by day, owner and kind."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from django import forms
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from core import pages, people
from jobs import operations as jobs
from jobs.domain import charts
from metering import operations, queries
from metering.operations import Unit
from postgres import clock

_BY: Final = ("kind", "model", "worker", "person", "group", "token", "day")
_DAYS: Final = (30, 7, 90, 365)
_MEASURES: Final = ("seconds", "tokens", "cost")
# What a row leads to: the page with these rows alone. Values of the address are names or ids.
_COLUMNS: Final = {name: columns[0] for name, columns in queries.BY.items() if name != "day"}
_LARGEST: Final = 2**31 - 1
_LONGEST: Final = timedelta(days=366)
_MOST_ROWS: Final = 500  # of the table, more than it has days
_DAY: Final = forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d")


def _choices(values: Sequence[Any], titles: Mapping[Any, str] | None = None) -> list[tuple[str, str]]:
    return [(str(value), (titles or {}).get(value, str(value).capitalize())) for value in values]


class Form(forms.Form):
    """What is shown, and in what detail. A value that makes no sense is as if it were absent."""

    by = forms.ChoiceField(choices=_choices(_BY), required=False)
    days = forms.ChoiceField(
        label="In the last", choices=_choices(_DAYS, {days: f"{days} days" for days in _DAYS}), required=False
    )
    since = forms.DateField(label="Or from", required=False, widget=_DAY)
    until = forms.DateField(label="To", required=False, widget=_DAY)
    measure = forms.ChoiceField(
        label="Chart", choices=_choices(_MEASURES, {"seconds": "Seconds of workers", "cost": "Money"}), required=False
    )
    kind = forms.CharField(max_length=100, required=False, widget=forms.HiddenInput)
    model = forms.CharField(max_length=200, required=False, widget=forms.HiddenInput)
    worker = forms.IntegerField(min_value=1, max_value=_LARGEST, required=False, widget=forms.HiddenInput)
    person = forms.IntegerField(min_value=1, max_value=_LARGEST, required=False, widget=forms.HiddenInput)
    group = forms.IntegerField(min_value=1, max_value=_LARGEST, required=False, widget=forms.HiddenInput)
    token = forms.IntegerField(min_value=1, max_value=_LARGEST, required=False, widget=forms.HiddenInput)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """What was asked for, and the rows it is about."""

    form: Form
    sees_all: bool
    by: str
    measure: str
    narrowed: Mapping[str, Any]
    since: date
    until: date
    rows: Any


@pages.guarded(login_required)
def usage(request: HttpRequest) -> HttpResponse:
    """Usage by day as a chart and by one of `_BY` as a table, and how budgets stand."""
    user = people.person(request)
    shown = _shown(request, user)
    bounding = queries.budgets() if shown.sees_all else queries.budgets_of(user)
    context = {
        "shown": shown,
        "form": shown.form,
        "title": dict(Form.base_fields["by"].choices)[shown.by],  # type: ignore[attr-defined]  # a ChoiceField
        "rows": [_entry(row, shown, request) for row in queries.summed(shown.rows, by=shown.by, limit=_MOST_ROWS)],
        "most": _MOST_ROWS,
        "total": _numbers(queries.total(shown.rows)),
        "chart": _chart(shown),
        "budgets": operations.balances(list(bounding[:200]), now=clock.now()),
        "counted_until": queries.counted_until(),
        "query": request.GET.urlencode(),
    }
    return render(request, "metering/usage.html", context)


@pages.guarded(login_required)
def as_csv(request: HttpRequest) -> HttpResponse:
    """The rows of the table as CSV (RFC 4180)."""
    shown = _shown(request, people.person(request))
    names = (*queries.BY[shown.by], *queries.NUMBERS)  # "worker_id" and "worker__name" are "Worker id" and "Worker"
    headings = [name.partition("__")[0].replace("_", " ").capitalize() for name in names]
    rows = (
        [row[name] for name in queries.BY[shown.by]] + [row[f"sum_{name}"] for name in queries.NUMBERS]
        for row in queries.summed(shown.rows, by=shown.by)
    )
    return pages.as_csv(headings, rows, name=f"usage-by-{shown.by}.csv")


def _shown(request: HttpRequest, user: User) -> _Shown:
    form = Form(request.GET)
    form.is_valid()
    wanted = {name: form.cleaned_data.get(name) for name in form.fields}
    sees_all = jobs.sees_all(user)
    narrowed = {name: value for name in _COLUMNS if (value := wanted[name]) not in (None, "")}
    since, until = _period(wanted, today=clock.now().date())
    chosen = {_COLUMNS[name]: value for name, value in narrowed.items()}
    return _Shown(
        form=form, sees_all=sees_all, by=wanted["by"] or _BY[0], measure=wanted["measure"] or _MEASURES[0],
        narrowed=narrowed, since=since, until=until,
        rows=queries.days(since=since, until=until, person=None if sees_all else user.pk, chosen=chosen),
    )  # fmt: skip


def _period(wanted: Mapping[str, Any], *, today: date) -> tuple[date, date]:
    """The first and the last day that are shown: those that are named, else so many up to today. Not over _LONGEST."""
    until = max(min(wanted["until"] or today, today), date.min + _LONGEST)
    since = wanted["since"] or until - timedelta(days=int(wanted["days"] or _DAYS[0]) - 1)
    return max(min(since, until), until - _LONGEST), until


def _entry(row: Mapping[str, Any], shown: _Shown, request: HttpRequest) -> dict[str, Any]:
    """A row of the table: its name, its numbers, and the address with these rows alone."""
    columns = queries.BY[shown.by]
    value, name = row[columns[0]], row[columns[-1]]
    link = ""
    query = request.GET.copy()
    if shown.by == "day":
        query["by"], query["since"], query["until"] = "person", str(value), str(value)
        link = query.urlencode()
    elif shown.by in _COLUMNS and value not in (None, ""):
        query[shown.by] = str(value)
        query["by"] = "day"
        link = query.urlencode()
    deleted = f"deleted (#{value})" if value is not None and name is None else ""
    return {"name": name, "missing": deleted or "none", "link": link, **_numbers(row)}


def _numbers(row: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {name: row[f"sum_{name}"] for name in queries.NUMBERS}
    return numbers | {"money": operations.amount(numbers["cost"], Unit.MONEY) if numbers["cost"] else ""}


def _chart(shown: _Shown) -> dict[str, Any]:
    """What was used in each day of the period, as bars."""
    by_day = {row["day"]: row for row in queries.summed(shown.rows, by="day")}
    days = [shown.since + timedelta(days=n) for n in range((shown.until - shown.since).days + 1)]
    values = [_measured(by_day[day], shown.measure) if day in by_day else 0.0 for day in days]
    scale = 100 if shown.measure == "cost" else 1  # of money in cents: bars are whole numbers
    stack = charts.stack([[round(value * scale) for value in values]], [])
    begin = datetime(shown.since.year, shown.since.month, shown.since.day, tzinfo=UTC)
    length_s = len(days) * 86400
    every_s = max(1, len(days) // 5) * 86400
    ticks = charts.ticks(begin=begin, length_s=length_s, every_s=every_s)
    return {
        "stack": stack,
        "numbers": [number / scale for number in stack.ticks],
        "ticks": ticks,
        "uprights": charts.uprights(ticks),
        "has_any": any(values),
    }


def _measured(row: Mapping[str, Any], measure: str) -> float:
    if measure == "tokens":
        return float(row["sum_tokens_in"] + row["sum_tokens_out"])
    return float(row[f"sum_{measure}"])
