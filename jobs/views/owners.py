"""Whose jobs are paused: a notice and its buttons on lists of jobs, and those of a concurrency key on pages of jobs."""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.http import urlencode

from core import people
from jobs import operations
from jobs.models import Live
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


@access.button
def pause_key(request: HttpRequest, job_id: int) -> HttpResponse:
    return _key_done(request, job_id, operations.pause_key, "Paused: no job with this concurrency key is claimed.")


@access.button
def resume_key(request: HttpRequest, job_id: int) -> HttpResponse:
    return _key_done(request, job_id, operations.resume_key, "Resumed.")


def _done(request: HttpRequest, owner_id: int, operation: Callable[..., None], sentence: str) -> HttpResponse:
    by = _who_runs_the_farm(request)
    owner = get_object_or_404(User, pk=owner_id)
    operation(owner, by=by)
    url = f"{reverse('jobs:list')}?{urlencode({'owner': owner.get_username()})}"
    return access.respond(request, sentence, level=messages.SUCCESS, url=url)


def _key_done(request: HttpRequest, job_id: int, operation: Callable[..., None], sentence: str) -> HttpResponse:
    by = _who_runs_the_farm(request)
    operation(get_object_or_404(Live.objects.exclude(key=None), pk=job_id).key_id, by=by)
    url = f"{reverse('jobs:job', args=[job_id])}#concurrency-key"
    return access.respond(request, sentence, level=messages.SUCCESS, url=url)


def _who_runs_the_farm(request: HttpRequest) -> User:
    person = people.person(request)
    if not fleet.runs_the_farm(person):
        raise PermissionDenied("Only those who run the farm may do that.")
    return person
