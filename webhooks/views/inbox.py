"""The inbox: what came, one delivery, its body, and a replay of it; and the feed of what happened by it."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import NoReverseMatch, reverse

from core import audit, people
from core.pages import FORM, POST, Answer, acting, for_holders
from core.refusal import existing
from core.values import row_id
from scheduling import operations as scheduling
from scheduling.operations import CancelVerdict
from webhooks import live_queries, operations
from webhooks.domain import bodies
from webhooks.domain.deliveries import Source, StartOutcome
from webhooks.models import Delivery, JobStart
from webhooks.operations import activity as feed
from webhooks.queries import pages
from webhooks.views.forms import ActivityForm, FilterForm, known_types

viewers = partial(for_holders, live_queries.VIEW)
operators = partial(for_holders, operations.OPERATE)


def _with_jobs(request: HttpRequest) -> bool:
    return request.POST.get("with_jobs") == "yes"


@viewers()
def inbox(request: HttpRequest) -> HttpResponse:
    form = FilterForm(request.GET)
    context = {
        "form": form,
        "shown": form.shown(),
        "before": form.page(),
        "types": known_types(form.shown().get("source", "")),
    }
    return render(request, "webhooks/inbox.html", context, status=200 if form.is_valid() else 422)


@viewers()
def delivery(request: HttpRequest, delivery_id: int) -> HttpResponse:
    row = _delivery_or_404(delivery_id)
    start = pages.body_start(delivery_id, most=bodies.PARSED_BYTES)
    content_type = str(row.headers.get("content-type", ""))
    context = {
        "delivery": row,
        "body": bodies.show(start, size=row.body_bytes, content_type=content_type),
        "source": Source(row.source),
        "functions": pages.runs_of(row),
    }
    return render(request, "webhooks/delivery.html", context)


@viewers()
def body(request: HttpRequest, delivery_id: int) -> HttpResponse:  # noqa: ARG001 (every view gets it)
    """The bytes as they came, to save. Whatever they are, no browser shows them as a page of ours."""
    row = _delivery_or_404(delivery_id)
    whole = pages.body_start(delivery_id, most=row.body_bytes)
    name = f'attachment; filename="delivery-{delivery_id}.bin"'
    headers = {"Content-Disposition": name, "Content-Security-Policy": "sandbox; default-src 'none'"}
    return HttpResponse(whole, content_type="application/octet-stream", headers=headers)


@acting("webhooks:delivery", operators(POST))
def replay(request: HttpRequest, delivery_id: int) -> str:
    operations.replay(delivery_id, with_jobs=_with_jobs(request), by=people.person(request))
    return "It is being processed again; its earlier attempts are kept."


@acting("webhooks:delivery", operators(POST))
def start_again(request: HttpRequest, delivery_id: int) -> Answer:
    start = get_object_or_404(JobStart, delivery_id=delivery_id, pk=row_id(request.POST.get("start", "")) or 0)
    row = operations.start_again(start.pk, by=people.person(request))
    if row.outcome == StartOutcome.STARTED:
        return f"Job #{row.job_id} was started."
    if row.outcome == StartOutcome.SENT:
        return f"The signal {row.kind} was sent."
    return messages.WARNING, row.error or f"Job #{row.job_id} has the same unique key and has not ended."


def _delivery_or_404(delivery_id: int) -> Delivery:
    return existing(pages.delivery(delivery_id), Http404("There is no such delivery."))


@viewers()
def activity(request: HttpRequest) -> HttpResponse:
    form = ActivityForm(request.GET)
    shown = form.shown()
    if "before" in shown:
        # 404 for a page that there is not: the live query would show nothing.
        feed.feed(limit=1, before=shown["before"])
    resource = next(iter(pages.named(shown.get("kind", ""), [shown.get("resource", "")])), None)
    context = {
        "form": form,
        "shown": shown,
        "resource": resource,
        "admin_url": _admin_url(people.person(request), resource) if resource else "",
    }
    return render(request, "webhooks/activity.html", context, status=200 if form.is_valid() else 422)


def _admin_url(user: User, resource: Mapping[str, Any]) -> str:
    """Its row in the administration, for whoever may look there."""
    if not (user.is_staff and user.has_perm(f"webhooks.view_{resource['kind']}")):
        return ""
    try:
        return reverse(f"admin:webhooks_{resource['kind']}_change", args=[resource["pk"]])
    except NoReverseMatch:
        return ""


REPLAYS: Final = 20  # on a page


@viewers()
def replays(request: HttpRequest) -> HttpResponse:
    return render(request, "webhooks/replays.html", {"replays": pages.Replay.latest(limit=REPLAYS)})


@operators(FORM)
def ask_replay(request: HttpRequest) -> HttpResponse:
    """How many the filter of the address fits, and a button that begins; its answer leads to the progress."""
    form = FilterForm(request.POST if request.method == "POST" else request.GET)
    shown = form.shown()
    if not form.is_valid():
        return render(request, "webhooks/replay_ask.html", {"form": form, "shown": shown}, status=422)
    wanted = live_queries.wanted(**shown)
    if request.method == "POST":
        begun = operations.replay_matching(wanted, with_jobs=_with_jobs(request), by=people.person(request))
        if begun is not None:
            return redirect("webhooks:replay", begun.first)
        messages.warning(request, "No delivery matches any more: none was replayed.")
        return redirect("webhooks:inbox")
    context = {"form": form, "shown": shown, "matched": operations.count_matching(wanted)}
    return render(request, "webhooks/replay_ask.html", {**context, "sentence": wanted.sentence()})


@viewers()
def show_replay(request: HttpRequest, first: int) -> HttpResponse:
    context = {"replay": _replay_or_404(first), "may_act": request.user.has_perm(operations.OPERATE)}
    return render(request, "webhooks/replay.html", context)


@acting("webhooks:replay", operators(POST))
def stop_replay(request: HttpRequest, first: int) -> Answer:
    row = _replay_or_404(first)
    verdict = None if row.is_over else scheduling.cancel(row.last).verdict
    if verdict is None or verdict is CancelVerdict.TOO_LATE:
        return messages.WARNING, "Too late: a batch of it is being processed, or it has ended. Try again."
    if (last := pages.delivery(row.until)) is not None:
        message = f"Stopped the bulk replay after {row.handled:,} of {row.matched:,}"
        audit.record(people.person(request), last, message)
    return "Stopped: no further batch is begun."


def _replay_or_404(first: int) -> pages.Replay:
    return existing(pages.Replay.find(first), Http404("There is no such replay."))
