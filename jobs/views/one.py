"""The page of one job, what can be done with it, and two of its attempts side by side; the page of its flow, and what
can be done with all of that."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from accounts.http import members_only
from core import people
from core.pages import Answer
from core.refusal import CancelVerdict
from jobs import http, operations
from jobs.domain import files, payloads
from jobs.domain.filters import ids_of
from jobs.domain.outputs import compare
from jobs.live_queries.common import MEMBER, OPERATOR
from jobs.live_queries.one import SignalForm, key_of
from jobs.models import Attempt, Job
from jobs.queries import inputs, pages, reads, reports, waits
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
        "may_run_farm": reads.runs_farm(request.user),
        "origin": pages.origin(job_id),
        "offspring": pages.offspring(job_id),
        "belongs_to": operations.links(row, viewer=request.user),
        "snippets": _snippets(request, row),
        "left_out": _left_out(row),
        "inputs": inputs.shown(row),
        "share_url": share and request.build_absolute_uri(reverse("jobs:shared", args=[share.token])),
    }
    with pages.known(row):
        return render(request, "jobs/job.html", context)


@access.action("jobs:job")
def cancel(request: HttpRequest, job_id: int) -> Answer:
    canceled = operations.cancel(job_id, by=people.person(request))
    if canceled.verdict is not CancelVerdict.TOO_LATE:
        return VERDICTS[canceled.verdict]
    return messages.WARNING, f"Too late: it has already ended as {canceled.status.replace('_', ' ')}."


@access.action("jobs:job")
def retry(request: HttpRequest, job_id: int) -> HttpResponse:
    """Retry an ended job: submit it again, as a new one, and go there."""
    # A second press makes no second job.
    return _submitted(request, lambda by: operations.retry(job_id, by=by, once=True), "Retried as job #{new}.")


run_now = access.acting("jobs:job", operations.run_now, "The job is due now.")
share = access.acting("jobs:job", operations.share, "Anyone with the link can see this job now.", at="#share")
unshare = access.acting("jobs:job", operations.unshare, "The link no longer works.", at="#share")


@access.action("jobs:job")
def change_priority(request: HttpRequest, job_id: int) -> Answer:
    form = PriorityForm(request.POST)
    if not form.is_valid():
        return messages.ERROR, str(form.errors["priority"][0])
    job = operations.change_priority(job_id, form.cleaned_data["priority"], by=people.person(request))
    return f"The priority is {job.priority}."


@access.action("jobs:job", guard=members_only)
def clone(request: HttpRequest, job_id: int) -> HttpResponse:
    """Submit a job like this one at once, as the person's own, and go there."""
    sentence = f"Submitted as job #{{new}}, like #{job_id}."
    return _submitted(request, lambda by: operations.clone(job_id, by=by), sentence)


@access.action("jobs:job")
def signal(request: HttpRequest, job_id: int) -> Answer:
    """Send the signal that the job waits for, by the form of its page."""
    job, wait = access.visible(request, job_id), waits.waiting(job_id)
    if wait is None:
        return messages.WARNING, "The job waits for no signal any more."
    if request.POST.get("signal-key") != key_of(job.fence):
        return messages.WARNING, f"The job waits for another answer by now ({wait.signal}): look at its form again."
    form = SignalForm(wait, request.POST)
    if not form.is_valid():
        wrong = "; ".join(f"{form[name].label}: {errors[0]}" for name, errors in form.errors.items())
        return messages.ERROR, wrong
    operations.signal(job_id, form.name, form.value, by=people.person(request), key=form.cleaned_data["key"])
    return f"The signal {form.name} was sent."


def _submitted(request: HttpRequest, submit: Callable[[User], Job], sentence: str) -> HttpResponse:
    http.count_submitted(request, people.person(request))
    new = submit(people.person(request))
    messages.success(request, sentence.format(new=new.pk))
    return redirect("jobs:job", new.pk)


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
    return {"curl": payloads.curl(url, body), "python": payloads.python(url, body)}


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


OUTPUT_CHARACTERS: Final = 100_000  # of each attempt, its last


def _name(attempt: Attempt) -> str:
    """What it is called: by its number as people count, which one that was given back has not."""
    number = "No attempt" if attempt.attempt is None else f"Attempt {attempt.attempt}"
    return f"{number}: {attempt.outcome.replace('_', ' ')}" + (
        f", {attempt.worker_name}" if attempt.worker_name else ""
    )


class AttemptsForm(forms.Form):
    def __init__(self, data: Mapping[str, str], *, attempts: Mapping[int, Attempt]) -> None:
        numbers = list(attempts)
        first, second = numbers[-2:]
        super().__init__({"a": data.get("a", first), "b": data.get("b", second)})
        options = [(number, _name(attempt)) for number, attempt in attempts.items()]
        for name, label in (("a", "Left"), ("b", "Right")):
            self.fields[name] = forms.TypedChoiceField(choices=options, coerce=int, label=label)


@access.page
def compared(request: HttpRequest, job_id: int) -> HttpResponse:
    """The attempts that `?a=` and `?b=` name by their fences; without them the last two."""
    job = access.visible(request, job_id)
    attempts = _attempts(job)
    context: dict[str, object] = {"job": job}
    if len(attempts) > 1:
        form = AttemptsForm(request.GET.dict(), attempts=attempts)
        context["form"] = form
        if form.is_valid():
            context |= _pair(job, attempts[form.cleaned_data["a"]], attempts[form.cleaned_data["b"]])
    return render(request, "jobs/attempts.html", context)


def _attempts(job: Job) -> dict[int, Attempt]:
    """By fence, the first one first; the current one is the job's own row."""
    attempts = {attempt.number: attempt for attempt in reads.attempts(job.pk)}
    if job.claimed_at is not None and job.fence and job.fence not in attempts:
        moments: dict[str, Any] = {"claimed_at": job.claimed_at, "ended_at": job.ended_at}
        own = {"outcome": job.status, "worker_name": job.worker_name or ""}
        attempts[job.fence] = Attempt(number=job.fence, attempt=job.attempt, **own, **moments)
    return attempts


def _pair(job: Job, left: Attempt, right: Attempt) -> dict[str, object]:
    ends = [reports.end_of_output(job.pk, fence=each.number, characters=OUTPUT_CHARACTERS) for each in (left, right)]
    return {
        "pair": [(_name(each), each) for each in (left, right)],
        "errors": compare(left.error, right.error),
        "outputs": compare(*(text for text, _ in ends)),
        "is_output_cut": any(is_cut for _, is_cut in ends),
    }


_LEGEND: Final = (
    ("pending", "waited for a worker"),
    ("in_progress", "in progress"),
    ("ran", "ran"),
    ("suspended", "suspended, until a worker took it again"),
    ("failed", "failed, lost or timed out"),
    ("canceled", "canceled or given back"),
)


@access.page
def flow(request: HttpRequest, flow_id: int) -> HttpResponse:
    """A flow, live: the picture of its jobs, how they stand and what they took."""
    if not reads.visible_to(request.user).filter(flow_id=flow_id).exists():
        raise Http404("There is no such flow.")
    context = {"flow_id": flow_id, "whose": access.viewer(people.person(request)), "legend": _LEGEND}
    return render(request, "jobs/flow.html", context)


@access.action("jobs:flow")
def cancel_flow(request: HttpRequest, flow_id: int) -> str:
    canceled = operations.flows.cancel(flow_id, by=people.person(request))
    return f"Canceled {canceled:,} {'job' if canceled == 1 else 'jobs'}."


@access.action("jobs:flow")
def retry_flow(request: HttpRequest, flow_id: int) -> str:
    """Try again what failed, and what was canceled for its sake; or the job that is named and what came after it."""
    from_job = next(iter(ids_of(request.POST.get("from", ""))), None)
    again = len(operations.flows.retry(flow_id, by=people.person(request), from_job=from_job))
    if from_job is not None:
        return f"Retried from job #{from_job}: {again:,} {'job' if again == 1 else 'jobs'} submitted again."
    if not again:
        return "Nothing of it is left to be tried again."
    return f"{again:,} {'job is' if again == 1 else 'jobs are'} tried again, with what was canceled for their sake."
