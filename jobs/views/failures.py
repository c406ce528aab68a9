"""Failures grouped by error, and bulk actions on a group."""

from collections.abc import Sequence
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode

from core import people
from jobs import operations
from jobs.domain.bulks import BulkAction
from jobs.domain.filters import Filters
from jobs.domain.states import Status
from jobs.queries import bulks, pages as queries
from jobs.templatetags.farm import last_line
from jobs.views import access

_AGES: Final = {"hour": "Last hour", "day": "Last 24 hours", "week": "Last 7 days"}
_WORKERS: Final = 4  # that are named
_ACTIONS: Final = {
    Status.FAILED: BulkAction.RETRY,
    Status.TIMED_OUT: BulkAction.RETRY,
    Status.PENDING: BulkAction.CANCEL,
}


class AgeForm(forms.Form):
    age = forms.ChoiceField(choices=list(_AGES.items()), label="Submitted")


@access.page_with_form
def failures(request: HttpRequest) -> HttpResponse:
    """What failed of late, by error; a POST leads to the page on which the action on one group is confirmed."""
    user = people.person(request)
    data = request.POST if request.method == "POST" else request.GET
    form = AgeForm({"age": data.get("age") or "day"})
    if not form.is_valid():
        return HttpResponse(form.errors.as_text(), status=422, content_type="text/plain; charset=utf-8")
    age = form.cleaned_data["age"]
    of_late = queries.failures(viewer=access.viewer(user), age=age)
    if request.method == "POST":
        return _act(request, user, of_late, age)
    context = {
        "rows": [_row(group) for group in of_late.groups],
        "is_all": of_late.is_all, "most": queries.MOST_FAILURES, "age": age, "ages": _AGES,
        "reaches_all": bulks.reaches_all(user),
    }  # fmt: skip
    return render(request, "jobs/failures.html", context)


def _row(group: queries.FailureGroup) -> dict[str, Any]:
    retries = [(status, len(ids), *_linked(ids)) for status, ids in group.retries.items()]
    return {
        "group": group,
        "count": len(group.ids),
        "more_workers": max(0, len(group.workers) - _WORKERS),
        "linked": _linked(group.ids),
        "retries": retries,
        "retried": sum(map(len, group.retries.values())),
        "cancels": _ACTIONS[Status(group.status)] is BulkAction.CANCEL,
    }


def _act(request: HttpRequest, user: User, of_late: queries.Failures, age: str) -> HttpResponse:
    """A bulk action on the jobs that are in the group now."""
    group = next((each for each in of_late.groups if each.key == request.POST.get("group")), None)
    if group is None:
        messages.error(request, "All of these jobs have been deleted.")
        return HttpResponseRedirect(f"{reverse('jobs:failures')}?{urlencode({'age': age})}")
    made = operations.bulk.create(
        _ACTIONS[Status(group.status)], by=user, filters=_filters(group.ids),
        back=f"{reverse('jobs:failures')}?{urlencode({'age': age})}", error=last_line(group.error),
    )  # fmt: skip
    return HttpResponseRedirect(reverse("jobs:bulk", args=[made.pk]))


def _linked(ids: Sequence[int]) -> tuple[int, str]:
    """How many of these jobs a link leads to, the first of them, and the link."""
    query = _filters(ids).for_address()
    return query.get("ids", "").count(",") + 1, f"{reverse('jobs:list')}?{urlencode(query)}"


def _filters(ids: Sequence[int]) -> Filters:
    return Filters(ids=",".join(map(str, ids)))
