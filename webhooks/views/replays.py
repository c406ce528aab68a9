"""Replaying all that match a filter: how many they are, then yes or no, then how far it is."""

from typing import Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from core import audit, people
from core.pages import FORM, POST
from scheduling import operations as scheduling
from scheduling.operations import CancelVerdict
from webhooks import live_queries, operations
from webhooks.queries import pages
from webhooks.views import access
from webhooks.views.forms import FilterForm

REPLAYS: Final = 20  # on a page


@access.viewers()
def replays(request: HttpRequest) -> HttpResponse:
    return render(request, "webhooks/replays.html", {"replays": pages.Replay.latest(limit=REPLAYS)})


@access.operators(FORM)
def ask(request: HttpRequest) -> HttpResponse:
    """How many the filter of the address fits, and a button that begins; its answer leads to the progress."""
    form = FilterForm(request.POST if request.method == "POST" else request.GET)
    shown = form.shown()
    if not form.is_valid():
        return render(request, "webhooks/replay_ask.html", {"form": form, "shown": shown}, status=422)
    wanted = live_queries.wanted(**shown)
    if request.method == "POST":
        begun = operations.replay_matching(wanted, with_jobs=access.with_jobs(request), by=people.person(request))
        if begun is not None:
            return redirect("webhooks:replay", begun.first)
        messages.warning(request, "No delivery matches any more: none was replayed.")
        return redirect("webhooks:inbox")
    context = {"form": form, "shown": shown, "matched": operations.count_matching(wanted)}
    return render(request, "webhooks/replay_ask.html", {**context, "sentence": wanted.sentence()})


@access.viewers()
def replay(request: HttpRequest, first: int) -> HttpResponse:
    context = {"replay": _replay_or_404(first), "may_act": access.may_act(request)}
    return render(request, "webhooks/replay.html", context)


@access.operators(POST)
def stop(request: HttpRequest, first: int) -> HttpResponse:
    """Begin no further batch; what was replayed stays so."""
    row = _replay_or_404(first)
    verdict = None if row.is_over else scheduling.cancel(row.last).verdict
    if verdict is None or verdict is CancelVerdict.TOO_LATE:
        messages.warning(request, "Too late: a batch of it is being processed, or it has ended. Try again.")
    else:
        if (last := pages.delivery(row.until)) is not None:
            message = f"Stopped the bulk replay after {row.handled:,} of {row.matched:,}"
            audit.record(people.person(request), last, message)
        messages.success(request, "Stopped: no further batch is begun.")
    return redirect("webhooks:replay", first)


def _replay_or_404(first: int) -> pages.Replay:
    row = pages.Replay.find(first)
    if row is None:
        raise Http404("There is no such replay.")
    return row
