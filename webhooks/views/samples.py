"""Test deliveries: a body, signed with the source's own secret and posted to its address like any other."""

import hashlib
import secrets as rng

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from core import audit, people
from core.values import row_id
from postgres import clock
from webhooks import operations
from webhooks.domain import bodies
from webhooks.domain.names import Source
from webhooks.errors import WebhooksError
from webhooks.operations.samples import sample
from webhooks.queries import pages
from webhooks.views import access
from webhooks.views.forms import LONGEST_BODY, SendForm, known_types


@require_http_methods(["GET", "HEAD", "POST"])
@access.operators_only
def send(request: HttpRequest, name: str) -> HttpResponse:
    """A form with a harmless body, or with that of `?like=<delivery>`; the answer leads to what came of it."""
    source = access.source_named(name)
    if request.method != "POST":
        form = SendForm(initial=_initial(source, like=request.GET.get("like", "")))
        return _page(request, source, form, status=200)
    form = SendForm(request.POST)
    if not form.is_valid():
        return _page(request, source, form, status=422)
    try:
        sent = operations.send(source, form.bytes(), event_type=form.cleaned_data["event"])
    except WebhooksError as refusal:
        form.add_error(None, refusal.message)
        return _page(request, source, form, status=422)
    return _arrived(request, source, form, sent)


def _arrived(request: HttpRequest, source: Source, form: SendForm, sent: operations.Sent) -> HttpResponse:
    """To the delivery that it became, or back to the form with the address's answer."""
    delivery = pages.newest_with_body(source, sha256=hashlib.sha256(form.bytes()).digest())
    if delivery is None or sent.status not in {200, 400}:  # 400: taken in as rejected
        form.add_error(None, f"The address answered {sent.status}: {sent.answer[:500]}")
        return _page(request, source, form, status=422)
    audit.record(people.person(request), delivery, f"Sent {delivery} as a test")
    messages.success(request, f"The address answered {sent.status}: {sent.answer[:200]}")
    return redirect("webhooks:delivery", delivery.pk)


def _page(request: HttpRequest, source: Source, form: SendForm, *, status: int) -> HttpResponse:
    context = {"source": source, "form": form, "types": known_types(source)}
    return render(request, "webhooks/send.html", context, status=status)


def _initial(source: Source, *, like: str) -> dict[str, str]:
    delivery = pages.delivery(row_id(like) or 0)
    if delivery is None or delivery.source != source or delivery.body_bytes > LONGEST_BODY:
        event_type, body = sample(source, now=clock.now(), token=rng.token_hex(6))
        return {"event": event_type, "body": body}
    start = pages.body_start(delivery.pk, most=delivery.body_bytes)
    shown = bodies.show(start, size=delivery.body_bytes, content_type="application/json")
    return {"event": delivery.event_type, "body": shown.text or ""}
