"""Bulk actions: count, confirm, follow, stop, undo; and the failures by error, from which they are asked for, too."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode

from core import people
from core.refusal import existing
from jobs import operations
from jobs.domain.bulks import BulkAction, sentence
from jobs.domain.filters import Filters, ids_of
from jobs.domain.states import Status
from jobs.models import Bulk
from jobs.queries import bulks, pages, reads
from jobs.templatetags.farm import last_line
from jobs.views import access
from jobs.views.lists import BulkActionForm, FilterForm


@access.page_with_form
def index(request: HttpRequest) -> HttpResponse:
    """The latest bulks of this person, or of everybody; a POST asks for a new one and leads to its page."""
    user = people.person(request)
    if request.method == "POST":
        return _create(request, user)
    rows = bulks.of_person(None if reads.is_operator(user) else user.pk)
    return render(request, "jobs/bulks.html", {"bulks": rows})


@access.page
def bulk(request: HttpRequest, bulk_id: int) -> HttpResponse:
    """One bulk, live: how many match, how far it is, what it came to, and what can be taken back."""
    user = people.person(request)
    row = existing(bulks.seen(bulk_id, by=user), Http404("There is no such bulk action."))
    filters = Filters.of(row.filters)
    list_url = f"{reverse('jobs:list')}?{urlencode(filters.for_address())}"
    context = {
        "bulk": row,
        "filters": {name: value for name, value in filters.as_dict().items() if name != "ids"},
        "chosen": len(ids_of(filters.ids)),
        "sentence": sentence(BulkAction(row.action), row.value, jobs=row.matched),
        "list_url": list_url,
        "back_url": row.back or list_url,
        "may_act": row.by_id == user.pk or bulks.reaches_all(user),
    }
    return render(request, "jobs/bulk.html", context)


def _acting(operation: Callable[..., Bulk]) -> Callable[..., HttpResponse]:
    """Do it, and go to the page that shows how that goes."""

    @access.action("jobs:bulk")
    def act(request: HttpRequest, bulk_id: int) -> HttpResponse:
        return redirect("jobs:bulk", operation(bulk_id, by=people.person(request)).pk)

    return act


begin, stop, undo = map(_acting, (operations.bulk.begin, operations.bulk.stop, operations.bulk.undo))


def _create(request: HttpRequest, user: User) -> HttpResponse:
    listed, form = FilterForm(request.POST, user=user), BulkActionForm(request.POST)
    ticked = request.POST.getlist("job")  # and not all that match
    meant = FilterForm({"ids": ",".join(ticked)}, user=user) if ticked else listed
    filters, back = meant.filters(), listed.address()
    if not (meant.is_valid() and form.is_valid()):
        for errors in (meant.errors, form.errors):
            for field_errors in errors.values():
                messages.error(request, " ".join(str(error) for error in field_errors))
        return HttpResponseRedirect(back)
    action, value = BulkAction(form.cleaned_data["action"]), form.cleaned_data["value"]
    create = partial(operations.bulk.create, action, by=user, filters=filters, value=value, back=back)
    return access.done(request, back, lambda: redirect("jobs:bulk", create().pk))


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
    of_late = pages.failures(viewer=access.viewer(user), age=age)
    if request.method == "POST":
        return _act(request, user, of_late, age)
    context = {
        "rows": [_row(group) for group in of_late.groups],
        "is_all": of_late.is_all, "most": pages.MOST_FAILURES, "age": age, "ages": _AGES,
        "reaches_all": bulks.reaches_all(user),
    }  # fmt: skip
    return render(request, "jobs/failures.html", context)


def _row(group: pages.FailureGroup) -> dict[str, Any]:
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


def _act(request: HttpRequest, user: User, of_late: pages.Failures, age: str) -> HttpResponse:
    """A bulk action on the jobs that are in the group now."""
    back = f"{reverse('jobs:failures')}?{urlencode({'age': age})}"
    group = next((each for each in of_late.groups if each.key == request.POST.get("group")), None)
    if group is None:
        messages.error(request, "All of these jobs have been deleted.")
        return HttpResponseRedirect(back)
    action, filters = _ACTIONS[Status(group.status)], _filters(group.ids)
    made = operations.bulk.create(action, by=user, filters=filters, back=back, error=last_line(group.error))
    return redirect("jobs:bulk", made.pk)


def _linked(ids: Sequence[int]) -> tuple[int, str]:
    """How many of these jobs a link leads to, the first of them, and the link."""
    query = _filters(ids).for_address()
    return query.get("ids", "").count(",") + 1, f"{reverse('jobs:list')}?{urlencode(query)}"


def _filters(ids: Sequence[int]) -> Filters:
    return Filters(ids=",".join(map(str, ids)))
