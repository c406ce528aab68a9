"""Bulk actions: count, confirm, follow, stop, undo."""

from collections.abc import Callable
from functools import partial

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
from jobs.models import Bulk
from jobs.queries import bulks, reads
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
