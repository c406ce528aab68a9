"""What every page asks first: who is it, may they, and how a refusal is shown."""

import json
from collections.abc import Callable
from functools import wraps
from http import HTTPStatus
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from core import people
from core.pages import FORM, POST, Answer, guarded
from core.refusal import existing
from jobs.errors import JobsError, NotFound, UnknownQueue
from jobs.models import Job
from jobs.queries import pages, reads
from ratelimits.errors import RateLimitsError

_MOODS = {messages.SUCCESS: "good", messages.WARNING: "", messages.ERROR: "bad"}
Act = Callable[..., HttpResponse]


# Pages for whoever is logged in: to look at, with a form that is sent to the page itself, and what a button does.
page = guarded(login_required)
page_with_form = guarded(login_required, FORM)
button = guarded(login_required, POST)


def action(page: str, *, at: str = "", guard: Callable[[Act], Act] = login_required) -> Callable[..., Act]:
    """What a button does, for whoever is logged in: the view does it, and what it answers, or why it was refused, is
    shown at the head of the `page` of what it acts on (`at`: of which part of it). 404 for what they may not see."""

    def decorate(view: Callable[..., Answer]) -> Act:
        @wraps(view)
        def act(request: HttpRequest, **names: Any) -> HttpResponse:
            return done(request, f"{reverse(page, kwargs=names)}{at}", lambda: view(request, **names))

        return guard(require_POST(act))

    return decorate


def acting(
    page: str, operation: Callable[..., object], sentence: str, *, at: str = "",
    of: Callable[[HttpRequest, Any], Any] = lambda _, named: named, by: Callable[[HttpRequest], User] = people.person,
) -> Act:  # fmt: skip
    """A button that does this to what the address names, or to what `of` finds by that, and says so."""

    @action(page, at=at)
    def act(request: HttpRequest, **names: Any) -> str:
        person, [named] = by(request), names.values()
        operation(of(request, named), by=person)
        return sentence

    return act


def done(request: HttpRequest, url: str, do: Callable[[], Answer]) -> HttpResponse:
    """Do it, and answer with what it returns, or say at `url` why it was refused; 404 for what they may not see."""
    try:
        answer = do()
    except (NotFound, UnknownQueue) as refusal:
        raise Http404(refusal.message) from refusal
    except (JobsError, RateLimitsError) as refusal:
        answer = messages.ERROR, refusal.message
    if isinstance(answer, HttpResponse):
        return answer
    level, sentence = (messages.SUCCESS, answer) if isinstance(answer, str) else answer
    return respond(request, sentence, level=level, url=url)


def runner(request: HttpRequest) -> User:
    """Who runs the farm. 403 for others."""
    person = people.person(request)
    if not reads.runs_farm(person):
        raise PermissionDenied("Only those who run the farm may do that.")
    return person


def viewer(user: User) -> int:
    """Whose jobs this person's pages show, as `jobs.queries.pages` means it."""
    return pages.EVERYBODY if reads.is_operator(user) else user.pk


def visible(request: HttpRequest, job_id: int) -> Job:
    """The job with its owner, group, payload and result. Raises NotFound if there is none that is theirs to see."""
    jobs = reads.visible_to(request.user).whole().select_related("owner", "group", "requirement", "live__lane")
    return existing(jobs.filter(pk=job_id).first(), NotFound())


def respond(request: HttpRequest, sentence: str, *, level: int, url: str) -> HttpResponse:
    """What came of a button: a note in the page that htmx sent it from, or a message at the head of `url`."""
    if getattr(request, "htmx", False):
        event = {"jobs:message": {"sentence": sentence, "mood": _MOODS[level]}}
        return HttpResponse(status=HTTPStatus.NO_CONTENT, headers={"HX-Trigger": json.dumps(event)})
    messages.add_message(request, level, sentence)
    return HttpResponseRedirect(url)
