"""Live queries of one job: where it stands, what it writes, how it came there, the form of what it waits for."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django import forms

from core.json_fields import StrictJSON
from jobs import kinds
from jobs.domain import outputs, payloads, timelines
from jobs.domain.flows import LONGEST_ID, parsed_schema, signal_fields
from jobs.domain.reasons import NEED_SOMEBODY
from jobs.domain.states import ENDED, Status
from jobs.domain.timelines import Current, Span
from jobs.live_queries import common
from jobs.live_queries.common import MEMBER, OPERATOR, part
from jobs.models import Attempt, Job, OutputChunk, ResultFile, Stage, Suspension
from jobs.protocol import jobs as protocol
from jobs.queries import flows, pages, reads, reports, waits as queries
from live.registry import Item, Viewer, live_query, live_stream
from postgres import clock, statements

MOST_AFTER: Final = 5
_CURSOR = re.compile(r"([0-9]{1,18}):(-?[0-9]{1,9})")


@live_query("job-json", topics=lambda job_id: [f"job:{job_id}"], audiences=(MEMBER,), render="json")
def job_json(*, job_id: int) -> dict[str, Any] | None:
    """A job as event streams show it; of an ended one, how many pieces of output it wrote."""
    jobs = protocol.in_full([job_id])
    if not jobs:
        return None
    [job] = jobs
    ended = reports.status(job_id) if job.status in ENDED else {"written": 0}
    if ended is None:  # it is gone by now
        return None
    return {
        "job": job.model_dump(mode="json", exclude={"payload", "checkpoint", "attempts"}),
        "written": ended["written"],
    }


@live_query("job-status", topics=lambda job_id: [f"job:{job_id}"], audiences=(MEMBER,), render="json", is_appended=True)
def job_status(*, job_id: int) -> dict[str, Any] | None:
    """A job's status and claim, and how many pieces of output that claim wrote: for a caller that waits for its end."""
    return reports.status(job_id)


job_json.may_see(common.member)
job_status.may_see(common.member)


_OUTPUT: Final[dict[str, Any]] = {
    "topics": lambda job_id: [f"output:{job_id}"], "rights_topics": common.shared, "anonymous": "ticket",
}  # fmt: skip


@live_stream("job-output", is_appended=True, **_OUTPUT)
def job_output(after: str | None, limit: int, *, job_id: int) -> list[Item]:
    """The pieces after `<fence>:<seq>`, through later claims.

    Without it, of the current attempt on; where none runs and none succeeded, of the last that wrote anything.
    """
    return [outputs.item(chunk.attempt, chunk.seq, chunk.text) for chunk in _pieces(after, limit, job_id)]


@live_stream("job-text", **_OUTPUT)
def job_text(after: str | None, limit: int, *, job_id: int) -> list[Item]:
    """The same pieces as the text that they add, of a job whose kind declares how its lines are read."""
    kind = Job.objects.filter(pk=job_id).values_list("kind", flat=True).first()
    chunks, read = _pieces(after, limit, job_id), kinds.OUTPUT_TEXTS.get(kind or "")
    if not chunks or read is None:
        return []
    first = chunks[0]
    before = OutputChunk.objects.filter(pk=(job_id, first.attempt, first.seq - 1)).first()
    pieces = [(chunk.attempt, chunk.text) for chunk in chunks]
    added = outputs.texts(pieces, read=read, before=(first.attempt, before.text if before else ""))
    return [outputs.item(chunk.attempt, chunk.seq, text) for chunk, text in zip(chunks, added, strict=True)]


def _pieces(after: str | None, limit: int, job_id: int) -> list[statements.Row]:
    if after is None:
        fence = reports.fence_to_read(job_id)
        start = None if fence is None else (fence, -1)
    else:
        match = _CURSOR.fullmatch(after)
        start = (int(match[1]), int(match[2])) if match else None
    return [] if start is None else reports.output_after(job_id, *start, most=limit)


for stream in (job_output, job_text):
    stream.may_see(common.audience_of_job)


def _job(*, job_id: int) -> Mapping[str, Any] | None:
    """Where a job stands, and what is known of it."""
    row = pages.job(job_id)
    return None if row is None else {"job": row}


part("job", "job:{job_id}", seen_by=common.audience_of_job)(_job)
# A row of the administration's list.
part("job-badge", "job:{job_id}", seen_by=common.operators, template="badge", every_s=0.5)(_job)


@part("job-facts", "job:{job_id}", seen_by=common.audience_of_detail, template="facts", every_s=0.25)
def job_facts(*, job_id: int) -> Mapping[str, Any] | None:
    """The same, and in a flow the first of those that it comes after."""
    shown = _job(job_id=job_id)
    if shown is None or shown["job"].flow_id is None:
        return shown
    after = [edge.after_id for edge in flows.after([job_id])[job_id]]
    return {**shown, "after": after[:MOST_AFTER], "more_after": len(after[MOST_AFTER:])}


@part("job-files", "job:{job_id}", seen_by=common.audience_of_job, template="files", every_s=0.1)
def job_files(*, job_id: int) -> Mapping[str, Any] | None:
    """The files of a job: of each name the one that its latest attempt handed in."""
    row = pages.job(job_id)
    if row is None:
        return None
    stored = {file.name: file for file in pages.latest_files(job_id)}
    shown = [stored.pop(name) for name in payloads.pictures(list(stored), has_ended=row.status in ENDED)]
    return {"job": row, "pictures": shown, "others": [(file, payloads.shown_as(file.name)) for file in stored.values()]}


@part("job-history", "job:{job_id}", seen_by=common.audience_of_detail, template="history", every_s=0.25)
def job_history(*, job_id: int) -> Mapping[str, Any] | None:
    """A job's checkpoint and result, its attempts with their waits, runs and stages, and the jobs that try it again."""
    row = pages.job_with_body(job_id)
    if row is None:
        return None
    rows = _rows(row)
    claimed = [each for each in rows if each.attempt is not None or row.status != Status.PENDING]
    return {"job": row, "rows": rows, "has_several": len(claimed) > 1, "retries": pages.retries(job_id)}


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRow:
    """A detail that an attempt reported, how long after its claim it began, and how long it lasted."""

    detail: str
    after_s: float
    took_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One claim in the history of a job; the current one, and a wait for the next, have no `attempt`.

    `counted` is the attempt's number, None for one that was given back.
    """

    number: int
    counted: int | None
    span: Span | None
    stages: list[StageRow]
    has_output: bool
    files: list[ResultFile]
    attempt: Attempt | None = None


def _rows(job: Job) -> list[Row]:
    """The latest first. A job that waits begins with that wait."""
    attempts = pages.attempts(job.pk)
    is_waiting = job.status == Status.PENDING
    is_known = job.status == Status.IN_PROGRESS or job.confirmed_fence == job.fence
    current = Current(
        number=job.fence, claimed_at=job.claimed_at if is_known else None, ended_at=job.ended_at, is_waiting=is_waiting
    )
    spans = timelines.spans(attempts, current, submitted_at=job.created_at, now=clock.now())
    stages = pages.stages(job.pk)
    ended = {attempt.number: attempt for attempt in attempts}
    numbers = sorted({*spans, *ended}, reverse=True)
    wrote = reports.fences_that_wrote(job.pk, numbers)
    files = pages.files_by_attempt(job.pk)
    return [
        Row(
            number=number,
            counted=ended[number].attempt if number in ended else job.attempt + is_waiting,
            span=spans.get(number),
            attempt=ended.get(number),
            has_output=number in wrote,
            files=files.get(number, []),
            stages=_stage_rows(stages.get(number, []), job=job, attempt=ended.get(number)),
        )
        for number in numbers
    ]


def _stage_rows(stages: list[Stage], *, job: Job, attempt: Attempt | None) -> list[StageRow]:
    claimed_at, over_at = (attempt or job).claimed_at, (attempt or job).ended_at
    if claimed_at is None or not stages:
        return []
    ends = [*(stage.began_at for stage in stages[1:]), over_at]
    return [
        StageRow(
            detail=stage.detail,
            after_s=(stage.began_at - claimed_at).total_seconds(),
            took_s=None if end is None else (end - stage.began_at).total_seconds(),
        )
        for stage, end in zip(stages, ends, strict=True)
    ]


@part(
    "job-why", "job:{job_id}", "queue:{queue}", "work:{queue}", "workers", audiences=(MEMBER, OPERATOR), template="why",
    every_s=1.0,
)  # fmt: skip
def job_why(*, job_id: int, queue: str) -> Mapping[str, Any] | None:
    """Why a pending job does not run, and what would change that; nothing for any other."""
    row = pages.job(job_id)
    if row is None:
        return None
    reasons = reads.why_not_running(job_id) if row.status == Status.PENDING else []
    return {
        "reasons": reasons,
        "queue": queue,
        "remedies": sorted({remedy.code for reason in reasons for remedy in reason.remedies}),
        "needs_somebody": any(reason.code in NEED_SOMEBODY for reason in reasons),
    }


@job_why.may_see
def _(viewer: Viewer, *, job_id: int, queue: str) -> str | None:  # noqa: ARG001  # which queue is no secret
    return OPERATOR if reads.is_operator(viewer.user) else common.member(viewer, job_id)


_FIELDS: Final[Mapping[str, type[forms.Field]]] = {
    "string": forms.CharField, "number": forms.FloatField, "integer": forms.IntegerField,
    "boolean": forms.BooleanField,
}  # fmt: skip


class SignalForm(forms.Form):
    """The fields that the job's schema names, or one for any JSON. What is sent of one wait (`key`) is one signal."""

    key = forms.CharField(widget=forms.HiddenInput, max_length=LONGEST_ID)

    def __init__(self, wait: Suspension, data: Any = None, *, key: str = "") -> None:
        super().__init__(data, initial={"key": key}, prefix="signal")
        self.name = wait.signal
        self._named = signal_fields(parsed_schema(wait.schema))
        for field in self._named:
            usual: dict[str, Any] = {"label": field.label, "help_text": "", "required": field.is_required}
            if field.choices:
                options = [(str(place), str(choice)) for place, choice in enumerate(field.choices)]
                none = ("", "Choose one" if field.is_required else "")
                self.fields[field.name] = forms.ChoiceField(choices=[none, *options], **usual)
            else:
                usual["required"] &= field.type != "boolean"  # else the box would have to be ticked
                self.fields[field.name] = _FIELDS[field.type](**usual)
        if not self._named:
            text = forms.Textarea({"rows": 3})
            self.fields["json"] = StrictJSON(label="Data, as JSON", required=False, widget=text)

    @property
    def value(self) -> Any:
        """What is sent."""
        values = self.cleaned_data
        if not self._named:
            return values["json"]
        filled = {field: values[field.name] for field in self._named if values[field.name] not in (None, "")}
        return {field.name: field.choices[int(one)] if field.choices else one for field, one in filled.items()}


def key_of(fence: int) -> str:
    """What is sent by the form of this wait, whoever sends it and however often."""
    return f"form-{fence}"


@part("job-signal", "job:{job_id}", audiences=(MEMBER,), template="signal", every_s=0.25)
def job_signal(*, job_id: int) -> Mapping[str, Any] | None:
    """The form of the signal that this job waits for; none while it waits for none."""
    row = pages.job(job_id)
    if row is None:
        return None
    wait = queries.waiting(job_id) if row.status == Status.PENDING and row.is_behind else None
    return {"signal": None if wait is None else SignalForm(wait, key=key_of(row.fence))}


@job_signal.may_see
def _(viewer: Viewer, *, job_id: int) -> str | None:
    """Who may operate the job."""
    row = reads.visible_to(viewer.user).filter(pk=job_id).first()
    return MEMBER if row is not None and reads.may_operate(viewer.user, row) else None
