"""Whose jobs are paused: a notice and its buttons on lists of jobs."""

from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.http import urlencode

from core import people
from jobs import operations
from jobs.queries import fleet, lanes
from jobs.views import access


def of_list(user: User, *, owner: str) -> dict[str, Any]:
    """What a list of jobs says of a pause: to who runs the farm that of the owner whom it is narrowed to (a name, or
    ""), to others their own."""
    may_run = fleet.runs_the_farm(user)
    person = User.objects.filter(username=owner).first() if may_run else user
    pause = None if person is None else lanes.pause_of(person)
    return {"person": person, "pause": pause, "may_run": may_run}


@access.button
def pause(request: HttpRequest, owner_id: int) -> HttpResponse:
    sentence = "Paused: none of their jobs is claimed any more. Jobs in progress continue."
    return _done(request, owner_id, operations.pause_owner, sentence)


@access.button
def resume(request: HttpRequest, owner_id: int) -> HttpResponse:
    return _done(request, owner_id, operations.resume_owner, "Resumed.")


def _done(request: HttpRequest, owner_id: int, operation: Callable[..., None], sentence: str) -> HttpResponse:
    if not fleet.runs_the_farm(people.person(request)):
        raise PermissionDenied("Only those who run the farm may do that.")
    owner = get_object_or_404(User, pk=owner_id)

    def do() -> str:
        operation(owner, by=people.person(request))
        return sentence

    return access.done(request, f"{reverse('jobs:list')}?{urlencode({'owner': owner.get_username()})}", do)
