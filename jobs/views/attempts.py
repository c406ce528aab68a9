"""Two attempts of a job side by side: what became of each, and how errors and output differ."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from jobs.domain.differences import compare
from jobs.models import Job
from jobs.queries import reads, reports
from jobs.views import access

OUTPUT_CHARACTERS: Final = 100_000  # of each attempt, its last


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """One attempt. `counted` is its number as people count, None for one that was given back."""

    number: int
    counted: int | None
    outcome: str
    worker: str
    claimed_at: datetime | None
    ended_at: datetime | None
    error: str = ""

    def __str__(self) -> str:
        name = "No attempt" if self.counted is None else f"Attempt {self.counted}"
        return f"{name}: {self.outcome.replace('_', ' ')}" + (f", {self.worker}" if self.worker else "")


class Choice(forms.Form):
    def __init__(self, data: Mapping[str, str], *, attempts: Mapping[int, Claimed]) -> None:
        numbers = list(attempts)
        first, second = numbers[-2:]
        super().__init__({"a": data.get("a", first), "b": data.get("b", second)})
        options = [(number, str(attempt)) for number, attempt in attempts.items()]
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


def _attempts(job: Job) -> dict[int, Claimed]:
    """By fence, the first one first; the current one is the job's own row."""
    claimed = {
        attempt.number: Claimed(
            number=attempt.number, counted=attempt.attempt, outcome=attempt.outcome, worker=attempt.worker_name,
            claimed_at=attempt.claimed_at, ended_at=attempt.ended_at, error=attempt.error,
        )
        for attempt in reads.attempts(job.pk)
    }  # fmt: skip
    if job.claimed_at is not None and job.fence and job.fence not in claimed:
        claimed[job.fence] = Claimed(
            number=job.fence, counted=job.attempt, outcome=job.status, worker=job.worker_name or "",
            claimed_at=job.claimed_at, ended_at=job.ended_at,
        )  # fmt: skip
    return claimed


def _pair(job: Job, left: Claimed, right: Claimed) -> dict[str, object]:
    ends = [reports.end_of_output(job.pk, fence=each.number, characters=OUTPUT_CHARACTERS) for each in (left, right)]
    return {
        "pair": (left, right),
        "errors": compare(left.error, right.error),
        "outputs": compare(*(text for text, _ in ends)),
        "is_output_cut": any(is_cut for _, is_cut in ends),
    }
