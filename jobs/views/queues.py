"""Pages of queues."""

from collections.abc import Callable
from functools import partial

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from core import people
from jobs import operations
from jobs.queries import fleet, reads
from jobs.views import access
from jobs.views.forms import CeilingForm


@access.page
def queues(request: HttpRequest) -> HttpResponse:
    """Every queue, live; the counts are of the jobs that this person may see."""
    user = people.person(request)
    context = {"viewer": access.viewer(user), "is_operator": reads.is_operator(user)}
    return render(request, "jobs/queues.html", context)


@access.page
def queue(request: HttpRequest, name: str) -> HttpResponse:
    """One queue, live; whoever runs the farm can pause it here and bound it."""
    return _page(request, name)


@access.button
def pause(request: HttpRequest, name: str) -> HttpResponse:
    sentence = "Paused: none of its jobs is claimed any more. Jobs in progress continue."
    return _done(request, name, operations.pause, sentence)


@access.button
def resume(request: HttpRequest, name: str) -> HttpResponse:
    return _done(request, name, operations.resume, "Resumed.")


@access.button
def set_ceiling(request: HttpRequest, name: str) -> HttpResponse:
    """Bound how many of its jobs run at a time, or take the bound away."""
    _check_rights(request)
    form = CeilingForm(request.POST)
    if not form.is_valid():
        return _page(request, name, form=form)
    ceiling: int | None = form.cleaned_data["ceiling"]
    sentence = f"At most {ceiling} of its jobs run at a time."
    if ceiling is None:
        sentence = "It has no ceiling now: any number of its jobs may run."
    return _done(request, name, partial(operations.set_ceiling, ceiling=ceiling), sentence)


def _page(request: HttpRequest, name: str, *, form: CeilingForm | None = None) -> HttpResponse:
    user = people.person(request)
    rows = fleet.queue_rows(viewer=access.viewer(user), name=name) if name and "\x00" not in name else []
    if not rows:
        raise Http404("There is no such queue.")
    context = {
        "queue": rows[0],
        "viewer": access.viewer(user),
        "may_run": fleet.runs_the_farm(user),
        "is_operator": reads.is_operator(user),
        "form": form or CeilingForm(initial={"ceiling": rows[0].ceiling}),
    }
    return render(request, "jobs/queue.html", context, status=422 if form else 200)


def _check_rights(request: HttpRequest) -> None:
    if not fleet.runs_the_farm(people.person(request)):
        raise PermissionDenied("Only those who run the farm may do that.")


def _done(request: HttpRequest, name: str, operation: Callable[..., None], sentence: str) -> HttpResponse:
    _check_rights(request)

    def do() -> str:
        operation(name, by=people.person(request))
        return sentence

    return access.done(request, reverse("jobs:queue", args=[name]), do)
