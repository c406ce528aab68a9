"""What every page asks first: who is it, may they, and how a refusal is shown."""

import json
from http import HTTPStatus

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect

from jobs.models import Job
from jobs.queries import pages, reads

_MOODS = {messages.SUCCESS: "good", messages.WARNING: "", messages.ERROR: "bad"}


def viewer(user: User) -> int:
    """Whose jobs this person's pages show, as `jobs.queries.pages` means it."""
    return pages.EVERYBODY if reads.is_operator(user) else user.pk


def visible(request: HttpRequest, job_id: int) -> Job:
    """The job with its owner, group, payload and result; 404 if there is none or it is not theirs to see."""
    jobs = reads.visible_to(request.user).whole().select_related("owner", "group", "requirement")
    job = jobs.filter(pk=job_id).first()
    if job is None:
        raise Http404("There is no such job.")
    return job


def respond(request: HttpRequest, sentence: str, *, level: int, url: str) -> HttpResponse:
    """What came of a button: a note in the page that htmx sent it from, or a message at the head of `url`."""
    if getattr(request, "htmx", False):
        event = {"jobs:message": {"sentence": sentence, "mood": _MOODS[level]}}
        return HttpResponse(status=HTTPStatus.NO_CONTENT, headers={"HX-Trigger": json.dumps(event)})
    messages.add_message(request, level, sentence)
    return HttpResponseRedirect(url)
