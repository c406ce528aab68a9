"""Pages of queues."""

from typing import NoReturn

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from core import people
from jobs import operations
from jobs.errors import JobsError, UnknownQueue
from jobs.queries import fleet, reads
from jobs.views import access
from jobs.views.forms import CeilingForm


@login_required
@require_safe
@never_cache
def queues(request: HttpRequest) -> HttpResponse:
    """Every queue, live; the counts are of the jobs that this person may see."""
    user = people.person(request)
    context = {"viewer": access.viewer(user), "is_operator": reads.is_operator(user)}
    return render(request, "jobs/queues.html", context)


@login_required
@require_safe
@never_cache
def queue(request: HttpRequest, name: str) -> HttpResponse:
    """One queue, live; whoever runs the farm can pause it here and bound it."""
    return _page(request, name)


@login_required
@require_POST
def pause(request: HttpRequest, name: str) -> HttpResponse:
    user = _who_runs_the_farm(request)
    try:
        operations.pause(name, by=user)
    except UnknownQueue as refusal:
        _not_found(refusal)
    return _respond(request, name, "Paused: none of its jobs is claimed any more. Jobs in progress continue.")


@login_required
@require_POST
def resume(request: HttpRequest, name: str) -> HttpResponse:
    """Let its jobs be claimed again."""
    user = _who_runs_the_farm(request)
    try:
        operations.resume(name, by=user)
    except UnknownQueue as refusal:
        _not_found(refusal)
    return _respond(request, name, "Resumed.")


@login_required
@require_POST
def set_ceiling(request: HttpRequest, name: str) -> HttpResponse:
    """Bound how many of its jobs run at a time, or take the bound away."""
    user = _who_runs_the_farm(request)
    form = CeilingForm(request.POST)
    if not form.is_valid():
        return _page(request, name, form=form)
    ceiling: int | None = form.cleaned_data["ceiling"]
    try:
        operations.set_ceiling(name, ceiling, by=user)
    except UnknownQueue as refusal:
        _not_found(refusal)
    bound = (
        "It has no ceiling now: any number of its jobs may run."
        if ceiling is None
        else f"At most {ceiling} of its jobs run at a time."
    )
    return _respond(request, name, bound)


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


def _who_runs_the_farm(request: HttpRequest) -> User:
    user = people.person(request)
    if not fleet.runs_the_farm(user):
        raise PermissionDenied("Only those who run the farm may do that.")
    return user


def _respond(request: HttpRequest, name: str, sentence: str) -> HttpResponse:
    return access.respond(request, sentence, level=messages.SUCCESS, url=reverse("jobs:queue", args=[name]))


def _not_found(refusal: JobsError) -> NoReturn:
    raise Http404(refusal.message) from refusal
