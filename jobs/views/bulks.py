"""Bulk actions: count, confirm, follow, stop, undo."""

from collections.abc import Callable

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from core import people
from jobs import operations
from jobs.domain.bulks import BulkAction, sentence
from jobs.domain.filters import Filters, ids_of
from jobs.errors import JobsError, NotFound
from jobs.models import Bulk
from jobs.queries import bulks, reads
from jobs.views.lists import BulkActionForm, FilterForm


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def index(request: HttpRequest) -> HttpResponse:
    """The latest bulks of this person, or of everybody; a POST asks for a new one and leads to its page."""
    user = people.person(request)
    if request.method == "POST":
        return _create(request, user)
    rows = bulks.of_person(None if reads.is_operator(user) else user.pk)
    return render(request, "jobs/bulks.html", {"bulks": rows})


@login_required
@require_safe
@never_cache
def bulk(request: HttpRequest, bulk_id: int) -> HttpResponse:
    """One bulk, live: how many match, how far it is, what it came to, and what can be taken back."""
    user = people.person(request)
    row = bulks.find(bulk_id)
    if row is None or not (row.by_id == user.pk or reads.is_operator(user)):
        raise Http404("There is no such bulk action.")
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


@login_required
@require_POST
def begin(request: HttpRequest, bulk_id: int) -> HttpResponse:
    return _done(request, bulk_id, operations.bulk.begin)


@login_required
@require_POST
def stop(request: HttpRequest, bulk_id: int) -> HttpResponse:
    return _done(request, bulk_id, operations.bulk.stop)


@login_required
@require_POST
def undo(request: HttpRequest, bulk_id: int) -> HttpResponse:
    """Take it back, and go to the page that shows how that goes."""
    return _done(request, bulk_id, operations.bulk.undo)


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
    try:
        made = operations.bulk.create(
            BulkAction(form.cleaned_data["action"]),
            by=user,
            filters=filters,
            value=form.cleaned_data["value"],
            back=back,
        )
    except JobsError as refusal:
        messages.error(request, refusal.message)
        return HttpResponseRedirect(back)
    return HttpResponseRedirect(reverse("jobs:bulk", args=[made.pk]))


def _done(request: HttpRequest, bulk_id: int, action: Callable[..., Bulk]) -> HttpResponse:
    try:
        bulk = action(bulk_id, by=people.person(request))
    except NotFound as refusal:
        raise Http404(refusal.message) from refusal
    except JobsError as refusal:
        messages.error(request, refusal.message)
        return HttpResponseRedirect(reverse("jobs:bulk", args=[bulk_id]))
    return HttpResponseRedirect(reverse("jobs:bulk", args=[bulk.pk]))
