"""The page of one job, and what can be done with it."""

import json
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from accounts.http import members_only
from core import people
from core.verdicts import CancelVerdict
from jobs import http, operations
from jobs.domain import snippets
from jobs.errors import JobsError, NotAllowed, NotFound, NotWaiting, WaitsForLimit
from jobs.live_queries.common import MEMBER, OPERATOR
from jobs.models import Job
from jobs.queries import fleet, inputs, pages, reads
from jobs.views import access
from ratelimits.errors import RateLimitsError

LONGEST_SNIPPET: Final = 20_000  # characters of a payload that is shown as a command
VERDICTS: Final = {
    CancelVerdict.BEFORE_START: "Canceled before it started: no worker ever ran it.",
    CancelVerdict.BEFORE_RETRY: "Canceled before its next attempt: an earlier one ran, no further one will.",
    CancelVerdict.WHILE_RUNNING: "Canceled while it ran: its worker is notified, and its result will be refused.",
    CancelVerdict.TOO_LATE: "Too late: it has already ended.",
}


class PriorityForm(forms.Form):
    priority = forms.IntegerField(min_value=-100, max_value=100)


@login_required
@require_safe
@never_cache
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
        "share_url": share and _share_url(request, share.token),
    }
    with pages.known(row):
        return render(request, "jobs/job.html", context)


@login_required
@require_POST
def cancel(request: HttpRequest, job_id: int) -> HttpResponse:
    page = reverse("jobs:job", args=[job_id])
    try:
        canceled = operations.cancel(job_id, by=people.person(request))
    except NotFound as refusal:
        raise Http404(refusal.message) from refusal
    except NotAllowed as refusal:
        return access.respond(request, refusal.message, level=messages.ERROR, url=page)
    sentence = VERDICTS[canceled.verdict]
    if canceled.verdict is CancelVerdict.TOO_LATE:
        sentence = f"Too late: it has already ended as {canceled.status.replace('_', ' ')}."
        return access.respond(request, sentence, level=messages.WARNING, url=page)
    return access.respond(request, sentence, level=messages.SUCCESS, url=page)


@login_required
@require_POST
def retry(request: HttpRequest, job_id: int) -> HttpResponse:
    """Retry an ended job: submit it again, as a new one, and go there."""
    page = reverse("jobs:job", args=[job_id])
    person = people.person(request)
    try:
        http.count_submitted(request, person)
        again = operations.retry(job_id, by=person, once=True)  # a second press makes no second job
    except NotFound as refusal:
        raise Http404(refusal.message) from refusal
    except (JobsError, RateLimitsError) as refusal:
        return access.respond(request, refusal.message, level=messages.ERROR, url=page)
    messages.success(request, f"Retried as job #{again.pk}.")
    return HttpResponseRedirect(reverse("jobs:job", args=[again.pk]))


@login_required
@require_POST
def run_now(request: HttpRequest, job_id: int) -> HttpResponse:
    page = reverse("jobs:job", args=[job_id])
    try:
        operations.run_now(job_id, by=people.person(request))
    except NotFound as refusal:
        raise Http404(refusal.message) from refusal
    except (NotAllowed, NotWaiting, WaitsForLimit) as refusal:
        return access.respond(request, refusal.message, level=messages.ERROR, url=page)
    return access.respond(request, "The job is due now.", level=messages.SUCCESS, url=page)


@login_required
@require_POST
def change_priority(request: HttpRequest, job_id: int) -> HttpResponse:
    """Move a job that waits before or behind others."""
    page = reverse("jobs:job", args=[job_id])
    form = PriorityForm(request.POST)
    if not form.is_valid():
        return access.respond(request, str(form.errors["priority"][0]), level=messages.ERROR, url=page)
    try:
        job = operations.change_priority(job_id, form.cleaned_data["priority"], by=people.person(request))
    except NotFound as refusal:
        raise Http404(refusal.message) from refusal
    except JobsError as refusal:
        return access.respond(request, refusal.message, level=messages.ERROR, url=page)
    return access.respond(request, f"The priority is {job.priority}.", level=messages.SUCCESS, url=page)


@members_only
@require_POST
def clone(request: HttpRequest, job_id: int) -> HttpResponse:
    """Submit a job like this one at once, as the person's own, and go there."""
    person = people.person(request)
    try:
        http.count_submitted(request, person)
        made = operations.clone(job_id, by=person)
    except NotFound as refusal:
        raise Http404(refusal.message) from refusal
    except (JobsError, RateLimitsError) as refusal:
        url = reverse("jobs:job", args=[job_id])
        return access.respond(request, refusal.message, level=messages.ERROR, url=url)
    messages.success(request, f"Submitted as job #{made.pk}, like #{job_id}.")
    return HttpResponseRedirect(reverse("jobs:job", args=[made.pk]))


@login_required
@require_POST
def share(request: HttpRequest, job_id: int) -> HttpResponse:
    """Make the link that shows this job to whoever has it."""
    return _sharing(request, job_id, done="Anyone with the link can see this job now.", makes=True)


@login_required
@require_POST
def unshare(request: HttpRequest, job_id: int) -> HttpResponse:
    """Make that link worthless, on pages that are open too."""
    return _sharing(request, job_id, done="The link no longer works.", makes=False)


def _sharing(request: HttpRequest, job_id: int, *, done: str, makes: bool) -> HttpResponse:
    page = reverse("jobs:job", args=[job_id])
    operation = operations.share if makes else operations.unshare
    try:
        operation(job_id, by=people.person(request))
    except NotFound as refusal:
        raise Http404(refusal.message) from refusal
    except JobsError as refusal:
        messages.error(request, refusal.message)
        return HttpResponseRedirect(page)
    messages.success(request, done)
    return HttpResponseRedirect(f"{page}#share")


def _snippets(request: HttpRequest, job: Job) -> dict[str, str] | None:
    """The calls that submit such a job again; None if they are too long for a page. Queue and priority are those of the
    kind where the job has these: others take a right to choose them."""
    body: dict[str, Any] = {"kind": job.kind, "payload": job.payload}
    if job.inputs:
        body["files"] = {entry["name"]: entry["file"] for entry in job.inputs}
    if len(json.dumps(body)) > LONGEST_SNIPPET:
        return None
    if (kind := operations.known_kind(job.kind)) is not None:
        own = {"queue": kind.queue, "priority": kind.priority}
        body |= {name: getattr(job, name) for name, value in own.items() if getattr(job, name) != value}
    if job.group is not None:
        body["group"] = job.group.name
    url = request.build_absolute_uri("/api/v1/jobs")
    return {"curl": snippets.curl(url, body), "python": snippets.python(url, body)}


def _left_out(job: Job) -> list[str]:
    """What of this job neither a copy nor a printed call holds, where it is not what its kind gives."""
    kind = operations.known_kind(job.kind)
    left_out = {
        "unique key": job.unique_key,
        "expiry": job.expires_at,
        "number of attempts": kind is None or job.max_attempts != kind.max_attempts,
        "timeout": job.timeout_s if kind is None else job.timeout_s != kind.timeout_s,
        "queue and priority": kind is None,
    }
    return [name for name, is_left_out in left_out.items() if is_left_out]


def _share_url(request: HttpRequest, token: str) -> str:
    return request.build_absolute_uri(reverse("jobs:shared", args=[token]))
