"""Two attempts of a job side by side: what became of each, and how errors and output differ."""

from collections.abc import Mapping
from typing import Any, Final

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from jobs.domain.differences import compare
from jobs.models import Attempt, Job
from jobs.queries import reads, reports
from jobs.views import access

OUTPUT_CHARACTERS: Final = 100_000  # of each attempt, its last


def _name(attempt: Attempt) -> str:
    """What it is called: by its number as people count, which one that was given back has not."""
    number = "No attempt" if attempt.attempt is None else f"Attempt {attempt.attempt}"
    return f"{number}: {attempt.outcome.replace('_', ' ')}" + (
        f", {attempt.worker_name}" if attempt.worker_name else ""
    )


class Choice(forms.Form):
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
        form = Choice(request.GET.dict(), attempts=attempts)
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
