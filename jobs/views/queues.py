"""Pages of queues."""

from collections.abc import Callable

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from core import people
from jobs import operations
from jobs.models import Fair
from jobs.queries import fleet, reads
from jobs.views import access
from jobs.views.forms import CeilingForm, OrderForm


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
    of_key: int | None = form.cleaned_data["of_key"]
    sentence = f"At most {ceiling} of its jobs run at a time."
    if ceiling is None:
        sentence = "It has no ceiling now: any number of its jobs may run."
    if of_key is not None:
        sentence += f" Of each concurrency key {of_key}."

    def do(queue: str, *, by: User) -> None:
        operations.set_ceiling(queue, ceiling, by=by)
        operations.bound_keys(queue, of_key, by=by)

    return _done(request, name, do, sentence)


@access.button
def set_order(request: HttpRequest, name: str) -> HttpResponse:
    """Share it out by owner or by group, or not at all; and let what waits for long count for more."""
    _check_rights(request)
    form = OrderForm(request.POST)
    if not form.is_valid():
        return _page(request, name, order=form)
    fair: str = form.cleaned_data["fair"]
    ages_after: int | None = form.cleaned_data["ages_after"]
    sentence = "Its jobs are taken in the order of submission now."
    if fair != Fair.OFF:
        sentence = f"Its jobs are taken by fair share now, {Fair(fair).label}."
    if ages_after is not None:
        sentence += f" One that waits for {ages_after:,} s counts one priority higher."

    def do(queue: str, *, by: User) -> None:
        operations.set_fair(queue, fair, by=by)
        operations.set_ages_after(queue, ages_after, by=by)

    return _done(request, name, do, sentence)


def _page(
    request: HttpRequest, name: str, *, form: CeilingForm | None = None, order: OrderForm | None = None
) -> HttpResponse:
    user = people.person(request)
    rows = fleet.queue_rows(viewer=access.viewer(user), name=name) if name and "\x00" not in name else []
    if not rows:
        raise Http404("There is no such queue.")
    context = {
        "queue": rows[0],
        "viewer": access.viewer(user),
        "may_run": fleet.runs_the_farm(user),
        "is_operator": reads.is_operator(user),
        "form": form or CeilingForm(initial={"ceiling": rows[0].ceiling, "of_key": rows[0].of_key}),
        "order": order or OrderForm(initial={"fair": rows[0].fair, "ages_after": rows[0].ages_after}),
    }
    return render(request, "jobs/queue.html", context, status=422 if form or order else 200)


def _check_rights(request: HttpRequest) -> None:
    if not fleet.runs_the_farm(people.person(request)):
        raise PermissionDenied("Only those who run the farm may do that.")


def _done(request: HttpRequest, name: str, operation: Callable[..., None], sentence: str) -> HttpResponse:
    _check_rights(request)

    def do() -> str:
        operation(name, by=people.person(request))
        return sentence

    return access.done(request, reverse("jobs:queue", args=[name]), do)
