"""Pages of queues; and of whom, and with which concurrency key, jobs are paused."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.http import urlencode

from core import people
from core.pages import Answer
from jobs import operations
from jobs.models import Fair, Live
from jobs.operations.queues import HIGHEST_CEILING, LONGEST_AGE_S
from jobs.queries import fleet, lanes, reads
from jobs.views import access


class OrderForm(forms.Form):
    """In which order the jobs of a queue are taken: between whom it is shared out, if it is, and what waiting does."""

    fair = forms.ChoiceField(choices=Fair, label="Shares")
    ages_after = forms.IntegerField(
        required=False, min_value=1, max_value=LONGEST_AGE_S, label="Ages after (seconds)",
        help_text="A job that is due counts one priority higher each time that it has waited so long, up to the most "
        "urgent that waits. Empty: never.",
    )  # fmt: skip


class CeilingForm(forms.Form):
    """How many jobs of a queue may run at a time."""

    ceiling = forms.IntegerField(
        required=False, min_value=0, max_value=HIGHEST_CEILING, label="At most",
        help_text="Empty: any number. 0: none at all.",
    )  # fmt: skip
    of_key = forms.IntegerField(
        required=False, min_value=1, max_value=HIGHEST_CEILING, label="Of each concurrency key at most",
        help_text="Empty: any number. A kind with a concurrency of its own keeps that.",
    )  # fmt: skip


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


@access.action("jobs:queue")
def set_ceiling(request: HttpRequest, name: str) -> Answer:
    """Bound how many of its jobs run at a time, or take the bound away."""
    by, form = access.runner(request), CeilingForm(request.POST)
    if not form.is_valid():
        return _page(request, name, form=form)
    ceiling: int | None = form.cleaned_data["ceiling"]
    of_key: int | None = form.cleaned_data["of_key"]
    operations.set_ceiling(name, ceiling, by=by)
    operations.bound_keys(name, of_key, by=by)
    sentence = f"At most {ceiling} of its jobs run at a time."
    if ceiling is None:
        sentence = "It has no ceiling now: any number of its jobs may run."
    if of_key is not None:
        sentence += f" Of each concurrency key {of_key}."
    return sentence


@access.action("jobs:queue")
def set_order(request: HttpRequest, name: str) -> Answer:
    """Share it out by owner or by group, or not at all; and let what waits for long count for more."""
    by, form = access.runner(request), OrderForm(request.POST)
    if not form.is_valid():
        return _page(request, name, order=form)
    fair: str = form.cleaned_data["fair"]
    ages_after: int | None = form.cleaned_data["ages_after"]
    operations.set_fair(name, fair, by=by)
    operations.set_ages_after(name, ages_after, by=by)
    sentence = "Its jobs are taken in the order of submission now."
    if fair != Fair.OFF:
        sentence = f"Its jobs are taken by fair share now, {Fair(fair).label}."
    if ages_after is not None:
        sentence += f" One that waits for {ages_after:,} s counts one priority higher."
    return sentence


def pause_of_list(user: User, *, owner: str) -> dict[str, Any]:
    """What a list of jobs says of a pause: to who runs the farm that of the owner whom it is narrowed to (a name, or
    ""), to others their own."""
    may_run = reads.runs_farm(user)
    person = User.objects.filter(username=owner).first() if may_run else user
    pause = None if person is None else lanes.pause_of(person)
    return {"person": person, "pause": pause, "may_run": may_run}


@access.button
def pause_owner(request: HttpRequest, owner_id: int) -> HttpResponse:
    sentence = "Paused: none of their jobs is claimed any more. Jobs in progress continue."
    return _owner_done(request, owner_id, operations.pause_owner, sentence)


@access.button
def resume_owner(request: HttpRequest, owner_id: int) -> HttpResponse:
    return _owner_done(request, owner_id, operations.resume_owner, "Resumed.")


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
        "may_run": reads.runs_farm(user),
        "is_operator": reads.is_operator(user),
        "form": form or CeilingForm(initial={"ceiling": rows[0].ceiling, "of_key": rows[0].of_key}),
        "order": order or OrderForm(initial={"fair": rows[0].fair, "ages_after": rows[0].ages_after}),
    }
    return render(request, "jobs/queue.html", context, status=422 if form or order else 200)


def _owner_done(request: HttpRequest, owner_id: int, operation: Callable[..., None], sentence: str) -> HttpResponse:
    by, owner = access.runner(request), get_object_or_404(User, pk=owner_id)
    operation(owner, by=by)
    url = f"{reverse('jobs:list')}?{urlencode({'owner': owner.get_username()})}"
    return access.respond(request, sentence, level=messages.SUCCESS, url=url)


def _key_of(_: HttpRequest, job_id: int) -> int:
    key_id = get_object_or_404(Live.objects.exclude(key=None), pk=job_id).key_id
    assert key_id is not None
    return key_id


_QUEUE: Final = partial(access.acting, "jobs:queue", by=access.runner)
_KEY: Final = partial(access.acting, "jobs:job", of=_key_of, by=access.runner, at="#concurrency-key")
pause = _QUEUE(operations.pause, "Paused: none of its jobs is claimed any more. Jobs in progress continue.")
resume = _QUEUE(operations.resume, "Resumed.")
pause_key = _KEY(operations.pause_key, "Paused: no job with this concurrency key is claimed.")
resume_key = _KEY(operations.resume_key, "Resumed.")
