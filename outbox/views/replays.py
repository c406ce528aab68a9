"""Replaying all messages of an endpoint that match: how many they are, then yes or no, then how far it is."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from core import people
from outbox import live_queries, operations
from outbox.errors import CannotStop
from outbox.views.access import for_members
from outbox.views.forms import FilterForm
from ratelimits.errors import RateLimited


@require_http_methods(["GET", "HEAD", "POST"])
@for_members
def ask(request: HttpRequest, endpoint_id: int) -> HttpResponse:
    """How many messages the filter of the address matches, and a button that begins; its answer is the progress."""
    person = people.person(request)
    row = operations.operable(endpoint_id, by=person)
    wanted = FilterForm(request.POST if request.method == "POST" else request.GET).filter(endpoint_id)
    if request.method == "POST":
        try:
            begun = operations.replay_matching(wanted, by=person)
        except RateLimited as refusal:
            messages.warning(request, refusal.message)
            return redirect("outbox:endpoint", endpoint_id)
        if begun is not None:
            return redirect("outbox:bulk_replay", begun.first)
        messages.warning(request, "No message matches any more: none was replayed.")
        return redirect("outbox:endpoint", endpoint_id)
    context = {
        "endpoint": row,
        "filters": live_queries.in_address(wanted),
        "matched": operations.count_matching(wanted, by=person),
        "most": operations.MOST_COUNTED,
        "sentence": wanted.sentence(),
    }
    return render(request, "outbox/replay_ask.html", context)


@require_safe
@for_members
def replay(request: HttpRequest, replay_id: int) -> HttpResponse:
    person = people.person(request)
    row = operations.find_replay(replay_id, by=person)
    may_act = row.by == person.pk or operations.is_operator(person)
    return render(request, "outbox/replay.html", {"replay": row, "may_act": may_act})


@require_POST
@for_members
def stop(request: HttpRequest, replay_id: int) -> HttpResponse:
    """Begin no further batch; what was replayed stays so."""
    try:
        operations.stop_replay(replay_id, by=people.person(request))
    except CannotStop as refusal:
        messages.warning(request, refusal.message)
    else:
        messages.success(request, "Stopped: no further batch is begun.")
    return redirect("outbox:bulk_replay", replay_id)
