"""The inbox: what came, one delivery, its body, and a replay of it."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from core import people
from webhooks import operations
from webhooks.domain import bodies
from webhooks.domain.names import Source
from webhooks.domain.states import StartOutcome
from webhooks.errors import CannotReplay, NotFound, WebhooksError
from webhooks.models import Delivery, JobStart
from webhooks.queries import job_starts, pages
from webhooks.views import access
from webhooks.views.forms import FilterForm, known_types


@require_safe
@access.viewers_only
def inbox(request: HttpRequest) -> HttpResponse:
    """What came, newest first, live; the filters stand in the address."""
    form = FilterForm(request.GET)
    context = {
        "form": form,
        "shown": form.shown(),
        "before": form.page(),
        "types": known_types(form.shown().get("source", "")),
        "may_act": access.may_act(request),
    }
    return render(request, "webhooks/inbox.html", context, status=200 if form.is_valid() else 422)


@require_safe
@access.viewers_only
def delivery(request: HttpRequest, delivery_id: int) -> HttpResponse:
    """One delivery: how it stands, live, and what came, which stays as it is."""
    row = _delivery_or_404(delivery_id)
    start = pages.body_start(delivery_id, most=bodies.PARSED_BYTES)
    content_type = str(row.headers.get("content-type", ""))
    context = {
        "delivery": row,
        "body": bodies.show(start, size=row.body_bytes, content_type=content_type),
        "source": Source(row.source),
        "may_act": access.may_act(request),
    }
    return render(request, "webhooks/delivery.html", context)


@require_safe
@access.viewers_only
def body(request: HttpRequest, delivery_id: int) -> HttpResponse:  # noqa: ARG001 (every view gets it)
    """The bytes as they came, to save. Whatever they are, no browser shows them as a page of ours."""
    row = _delivery_or_404(delivery_id)
    whole = pages.body_start(delivery_id, most=row.body_bytes)
    name = f'attachment; filename="delivery-{delivery_id}.bin"'
    headers = {"Content-Disposition": name, "Content-Security-Policy": "sandbox; default-src 'none'"}
    return HttpResponse(whole, content_type="application/octet-stream", headers=headers)


@require_POST
@access.operators_only
def replay(request: HttpRequest, delivery_id: int) -> HttpResponse:
    try:
        operations.replay(delivery_id, with_jobs=access.with_jobs(request), by=people.person(request))
    except NotFound as refusal:
        raise Http404(refusal.message) from refusal
    except CannotReplay as refusal:
        messages.warning(request, refusal.message)
    else:
        messages.success(request, "It is being processed again; its earlier attempts are kept.")
    return redirect("webhooks:delivery", delivery_id)


@require_POST
@access.operators_only
def start_again(request: HttpRequest, delivery_id: int) -> HttpResponse:
    start = job_starts.of_delivery_by_id(delivery_id, request.POST.get("start", ""))
    if start is None:
        raise Http404("This delivery has no such start of a job.")
    try:
        row = operations.start_again(start, by=people.person(request))
    except WebhooksError as refusal:
        messages.warning(request, refusal.message)
    else:
        _show_outcome(request, row)
    return redirect("webhooks:delivery", delivery_id)


def _show_outcome(request: HttpRequest, row: JobStart) -> None:
    if row.outcome == StartOutcome.STARTED:
        messages.success(request, f"Job #{row.job_id} was started.")
    else:
        sentence = f"Job #{row.job_id} has the same unique key and has not ended."
        messages.warning(request, row.error or sentence)


def _delivery_or_404(delivery_id: int) -> Delivery:
    row = pages.delivery(delivery_id)
    if row is None:
        raise Http404("There is no such delivery.")
    return row
