"""Pages of queues; and of whom, and with which concurrency key, jobs are paused."""

from collections.abc import Callable
from typing import Any, Final

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
from jobs.queries import fleet, lanes, reads
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


def _acting(page: str, operation: Callable[..., None], sentence: str, *, of: Any = str, at: str = "") -> access.Act:
    """Do it to what is named in the address: to what `of` makes of that."""

    @access.action(page, at=at)
    def act(request: HttpRequest, **named: Any) -> str:
        by, [name] = access.runner(request), named.values()
        operation(of(name), by=by)
        return sentence

    return act


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


def _key_of(job_id: int) -> int:
    key_id = get_object_or_404(Live.objects.exclude(key=None), pk=job_id).key_id
    assert key_id is not None
    return key_id


pause = _acting(
    "jobs:queue", operations.pause, "Paused: none of its jobs is claimed any more. Jobs in progress continue."
)
resume = _acting("jobs:queue", operations.resume, "Resumed.")
_KEYS: Final[dict[str, Any]] = {"of": _key_of, "at": "#concurrency-key"}
pause_key = _acting("jobs:job", operations.pause_key, "Paused: no job with this concurrency key is claimed.", **_KEYS)
resume_key = _acting("jobs:job", operations.resume_key, "Resumed.", **_KEYS)
