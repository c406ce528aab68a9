"""The page of one job, and what can be done with it."""

import json
from collections.abc import Callable
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_POST

from accounts.http import members_only
from core import people
from core.refusal import CancelVerdict
from jobs import http, operations
from jobs.domain import files, snippets
from jobs.live_queries.common import MEMBER, OPERATOR
from jobs.models import Job
from jobs.queries import fleet, inputs, pages, reads
from jobs.views import access

LONGEST_SNIPPET: Final = 20_000  # characters of a payload that is shown as a command
VERDICTS: Final = {
    CancelVerdict.BEFORE_START: "Canceled before it started: no worker ever ran it.",
    CancelVerdict.BEFORE_RETRY: "Canceled before its next attempt: an earlier one ran, no further one will.",
    CancelVerdict.WHILE_SUSPENDED: "Canceled while it was suspended: what it waited for lets it go on no more.",
    CancelVerdict.WHILE_RUNNING: "Canceled while it ran: its worker is notified, and its result will be refused.",
}


class PriorityForm(forms.Form):
    priority = forms.IntegerField(min_value=-100, max_value=100)


@access.page
def job(request: HttpRequest, job_id: int) -> HttpResponse:
    """A job, live: where it stands, what it writes and makes, its attempts, and why it does not run."""
    row = access.visible(request, job_id)
    may_operate = reads.may_operate(request.user, row)
    share = pages.share(job_id) if may_operate else None
    context = {
        "job": row,
        "audience": OPERATOR if reads.is_operator(request.user) else MEMBER,
        "may_operate": may_operate,
        "may_run_farm": fleet.runs_the_farm(request.user),
        "origin": pages.origin(job_id),
        "offspring": pages.offspring(job_id),
        "belongs_to": operations.links(job_id, viewer=request.user),
        "snippets": _snippets(request, row),
        "left_out": _left_out(row),
        "inputs": inputs.shown(row),
        "share_url": share and request.build_absolute_uri(reverse("jobs:shared", args=[share.token])),
    }
    with pages.known(row):
        return render(request, "jobs/job.html", context)


@access.button
def cancel(request: HttpRequest, job_id: int) -> HttpResponse:
    def do() -> str | HttpResponse:
        canceled = operations.cancel(job_id, by=people.person(request))
        if canceled.verdict is not CancelVerdict.TOO_LATE:
            return VERDICTS[canceled.verdict]
        sentence = f"Too late: it has already ended as {canceled.status.replace('_', ' ')}."
        return access.respond(request, sentence, level=messages.WARNING, url=_page(job_id))

    return access.done(request, _page(job_id), do)


@access.button
def retry(request: HttpRequest, job_id: int) -> HttpResponse:
    """Retry an ended job: submit it again, as a new one, and go there."""
    # A second press makes no second job.
    return _submitted(request, job_id, lambda by: operations.retry(job_id, by=by, once=True), "Retried as job #{new}.")


@access.button
def run_now(request: HttpRequest, job_id: int) -> HttpResponse:
    def do() -> str:
        operations.run_now(job_id, by=people.person(request))
        return "The job is due now."

    return access.done(request, _page(job_id), do)


@access.button
def change_priority(request: HttpRequest, job_id: int) -> HttpResponse:
    form = PriorityForm(request.POST)
    if not form.is_valid():
        return access.respond(request, str(form.errors["priority"][0]), level=messages.ERROR, url=_page(job_id))

    def do() -> str:
        job = operations.change_priority(job_id, form.cleaned_data["priority"], by=people.person(request))
        return f"The priority is {job.priority}."

    return access.done(request, _page(job_id), do)


@members_only
@require_POST
def clone(request: HttpRequest, job_id: int) -> HttpResponse:
    """Submit a job like this one at once, as the person's own, and go there."""
    sentence = f"Submitted as job #{{new}}, like #{job_id}."
    return _submitted(request, job_id, lambda by: operations.clone(job_id, by=by), sentence)


@access.button
def share(request: HttpRequest, job_id: int) -> HttpResponse:
    """Make the link that shows this job to whoever has it."""
    return _sharing(request, job_id, operations.share, "Anyone with the link can see this job now.")


@access.button
def unshare(request: HttpRequest, job_id: int) -> HttpResponse:
    """Make that link worthless, on pages that are open too."""
    return _sharing(request, job_id, operations.unshare, "The link no longer works.")


def _submitted(request: HttpRequest, job_id: int, submit: Callable[[User], Job], sentence: str) -> HttpResponse:
    def do() -> HttpResponse:
        http.count_submitted(request, people.person(request))
        new = submit(people.person(request))
        messages.success(request, sentence.format(new=new.pk))
        return HttpResponseRedirect(_page(new.pk))

    return access.done(request, _page(job_id), do)


def _sharing(request: HttpRequest, job_id: int, operation: Callable[..., object], sentence: str) -> HttpResponse:
    def do() -> HttpResponse:
        operation(job_id, by=people.person(request))
        messages.success(request, sentence)
        return HttpResponseRedirect(f"{_page(job_id)}#share")

    return access.done(request, _page(job_id), do)


def _page(job_id: int) -> str:
    return reverse("jobs:job", args=[job_id])


def _snippets(request: HttpRequest, job: Job) -> dict[str, str] | None:
    """The calls that submit such a job again; None if they are too long for a page. Queue and priority are those of the
    kind where the job has these: others take a right to choose them."""
    body: dict[str, Any] = {"kind": job.kind, "payload": job.payload}
    if job.inputs:
        body["files"] = {entry["name"]: entry["file"] for entry in job.inputs}
    if len(json.dumps(body)) > LONGEST_SNIPPET or files.places_of(job.inputs or ()):
        return None
    if (kind := operations.known_kind(job.kind)) is not None:
        own = {"queue": kind.queue, "priority": kind.priority}
        body |= {name: getattr(job, name) for name, value in own.items() if getattr(job, name) != value}
    if job.tags:
        body["tags"] = job.tags
    if job.group is not None:
        body["group"] = job.group.name
    url = request.build_absolute_uri("/api/v1/jobs")
    return {"curl": snippets.curl(url, body), "python": snippets.python(url, body)}


def _left_out(job: Job) -> list[str]:
    """What of this job neither a copy nor a printed call holds, where it is not what its kind gives."""
    kind, key = operations.known_kind(job.kind), job.concurrency_key
    left_out = {
        "unique key": job.unique_key,
        "concurrency key": key is not None and (kind is None or key != kind.concurrency_key_of(job.payload)),
        "expiry": job.expires_at,
        "number of attempts": kind is None or job.max_attempts != kind.max_attempts,
        "timeout": job.timeout_s if kind is None else job.timeout_s != kind.timeout_s,
        "queue and priority": kind is None,
    }
    return [name for name, is_left_out in left_out.items() if is_left_out]
