"""A job as JSON: one form for the API, the event streams and the OpenAPI document."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from django.db.models import QuerySet
from pydantic import BaseModel, Field, Strict

from core.values import BIGINT, Whole
from jobs import models
from jobs.domain.labels import chosen
from jobs.domain.states import AttemptOutcome, Status
from jobs.queries import flows, pages, reads, reports
from jobs.queries.submits import Stored

MOST_ATTEMPTS = 50  # in one answer
API = "/api/v1"  # where the API is mounted

JobId = Annotated[Whole, Field(ge=1, le=BIGINT)]
# What a client calls one call of its own, so that it can be made again.
RequestId = Annotated[str, Strict(), Field(pattern=r"^[!-~]{1,64}$", examples=["0b7e6c1e-claim-17"])]
# Any text: what cannot be a lease is a lost one (409), like every other that holds nothing.
LeaseText = Annotated[str, Strict(), Field(examples=["3-6f1c0a4e8d2b4c7f9a3e5d1b7c8f0a2e"])]


class ResultFile(BaseModel):
    """A file that the job's current attempt handed in."""

    name: str
    size: int = Field(description="Bytes.")
    url: str = Field(description="Where to get it, with the same key.", examples=["/api/v1/jobs/7/files/picture.png"])


class InputFile(BaseModel):
    name: str = Field(examples=["audio"])
    file: str = Field(description="The id of the upload: give it to another job, too.")
    filename: str = Field(description="What it was called when it was uploaded.", examples=["sound.ogg"])
    size: int = Field(description="Bytes.")
    sha256: str
    type: str = Field(description="As the file's name promises.", examples=["audio/ogg"])
    url: str = Field(
        description="Where to get it, with the same key; 404 once its owner deleted it.",
        examples=["/api/v1/jobs/7/inputs/audio"],
    )
    at: list[list[str | int]] | None = Field(
        None,
        description="Of a long part of the payload, which is JSON: where it belongs. Absent of others.",
        examples=[None],
        exclude_if=lambda at: at is None,
    )


class JobInList(BaseModel):
    """A job without the parts that may be long."""

    id: int
    kind: str = Field(examples=["chat"])
    queue: str = Field(examples=["chat"])
    status: Status
    priority: int = Field(description="-100 to 100; higher goes first.")
    attempt: int = Field(description="Number of the current or last attempt; 0 before the first.")
    fence: int = Field(
        description="Number of the current or last claim; its output and files are kept under it. Claims that were "
        "given back or never confirmed are no attempts."
    )
    failures: int = Field(description="Attempts that failed, were lost or took too long so far.")
    max_attempts: int = Field(description="After so many of them the job has failed.")
    progress: float | None = Field(description="0 to 1, as reported by the worker.")
    detail: str | None = Field(description="What the worker is doing, as it reports.")
    worker: str | None = Field(description="Name of the worker that has it or had it last.")
    owner: str | None = Field(description="User name.")
    group: str | None = Field(description="Name of the group it is shared with.")
    unique_key: str | None
    concurrency_key: str | None = Field(description="So many jobs with it run at a time as its kind or its queue says.")
    tags: list[str] = Field(description="Words that it is found by.", examples=[["nightly", "tenant:7"]])
    flow: int | None = Field(None, description="The flow that it is part of.")
    retry_of: int | None = Field(description="The ended job that this one tries again.")
    created_at: datetime
    replaced_at: datetime | None = Field(
        None, description="When a newer submit of its unique_key last replaced what it is to do."
    )
    run_at: datetime = Field(description="Not before this moment. In the year 9000: when `waits_for` has ended.")
    claimed_at: datetime | None
    ended_at: datetime | None
    expires_at: datetime | None = Field(description="Not started by then: timed_out.")
    requires: dict[str, str] = Field(description="Conditions on the labels of its worker.", examples=[{"vram": ">=16"}])
    prefers: dict[str, str] = Field(description="The same, of the workers that get it first.")


class Attempt(BaseModel):
    attempt: int | None = Field(description="Its number; null for one that was given back, which does not count.")
    fence: int = Field(description="Number of its claim: ask for output and files with `fence=` this.")
    outcome: AttemptOutcome | Literal["success"] | None = Field(description="Null while it runs.")
    worker: str | None = Field(description="Name of the worker.")
    claimed_at: datetime
    ended_at: datetime | None
    error: str | None = Field(description="What went wrong; null while it runs, and after a success.")
    has_output: bool
    files: list[ResultFile]


class Job(JobInList):
    """A job with everything but its output."""

    waits_for: int | None = Field(
        None,
        description="A job that has to end before it may start: it has its unique_key, or comes before it. Not in "
        "event streams.",
    )
    name: str | None = Field(None, description="What it is called within its flow. Not in event streams.")
    after: list[int] = Field(
        default_factory=list, description="The jobs of its flow that it comes after. Not in event streams."
    )
    canceled_for: int | None = Field(
        None,
        description="It was canceled, for this job, which it comes after, did not succeed; or with this job, which "
        "submitted it. Not in event streams.",
    )
    keep_content: bool = Field(
        True, description="False: what it was given and gave is deleted minutes after its end. Not in event streams."
    )
    content_deleted_at: datetime | None = Field(
        None, description="When it was, or what matches its kind's patterns was redacted. Not in event streams."
    )
    payload: Any = Field(None, description="As it was submitted. Not in event streams.")
    checkpoint: Any = Field(
        None, description="What its worker last kept of what it has found out. Not in event streams."
    )
    result: Any = Field(None, description="What the worker handed in with its success.")
    error: str | None = Field(None, description="How the newest attempt that failed did so; null after a success.")
    files: list[ResultFile] = Field(default_factory=list)
    inputs: list[InputFile] = Field(default_factory=list, description="The files that it was given.")
    attempts: list[Attempt] = Field(
        default_factory=list, description=f"The latest first, {MOST_ATTEMPTS} at most. Not in event streams."
    )


def with_names(jobs: QuerySet[models.Job]) -> QuerySet[models.Job]:
    """These jobs, each read with the names that `in_list` needs."""
    return jobs.select_related("owner", "group", "requirement")


def in_list(job: models.Job) -> JobInList:
    """The short form of a job that was read `with_names`: no further query."""
    return JobInList(**_columns(job))


# What a view token does not show: what was asked, by whom, and who works on it.
_NOT_IN_VIEWS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("owner", "group", "worker", "unique_key", "concurrency_key", "payload", "checkpoint")),
    **dict.fromkeys(("flow", "name", "canceled_for")),
    **dict.fromkeys(("files", "inputs", "attempts", "after"), ()), "requires": {}, "prefers": {},
}  # fmt: skip


# The keys as well: a kind makes one of the payload, and who submits may make the other of it.
_INPUT: Final[Mapping[str, Any]] = {"payload": None, "inputs": [], "unique_key": None, "concurrency_key": None}
_RESULT: Final[Mapping[str, Any]] = {"checkpoint": None, "result": None, "error": None, "files": []}


def without_content(job: Job, *, keeps_input: bool) -> Job:
    """A job's document for who may not read: without what it gave, and what it was given unless that came with the
    call."""
    return job.model_copy(update=_RESULT if keeps_input else {**_INPUT, **_RESULT})


def as_view(document: Mapping[str, Any]) -> dict[str, Any]:
    """A job's document as a view token shows it."""
    return {name: _NOT_IN_VIEWS.get(name, value) for name, value in document.items()}


def listed(job_ids: Collection[int]) -> list[JobInList]:
    """The short form of these jobs in their order, whoever asks. Jobs that are not there are left out."""
    jobs = with_names(models.Job.objects.all()).in_bulk(list(job_ids))
    return [in_list(jobs[job_id]) for job_id in job_ids if job_id in jobs]


def in_full(job_ids: Sequence[int]) -> list[Job]:
    """The long form of these jobs in their order, whoever asks, by three queries however many they are, and two where
    any waits for another or is part of a flow.

    Jobs that are not there are left out.
    """
    jobs = with_names(models.Job.objects.whole()).in_bulk(job_ids)
    errors, files = reads.errors(list(jobs.values())), reads.files(job_ids)
    rows = [jobs[job_id] for job_id in job_ids if job_id in jobs]
    behind = reads.waits_for(rows)
    of_flow = [job.pk for job in rows if job.flow_id is not None]
    steps, after = (flows.steps(of_flow), flows.after(of_flow)) if of_flow else ({}, {})
    full: list[Job] = []
    for job in rows:
        shown = _full(job, error=errors.get(job.pk), files=files[job.pk], waits_for=behind.get(job.pk))
        if (step := steps.get(job.pk)) is not None:
            shown.name, shown.canceled_for = step.name or None, step.canceled_for_id
            shown.after = [edge.after_id for edge in after[job.pk]]
        full.append(shown)
    return full


def fresh(stored: Stored, *, payload: Any, owner: str, group: str | None, tags: Iterable[str]) -> Job:
    """The long form of a job that was stored just now, from what it was stored from: no query."""
    new = stored.record
    return Job(
        id=stored.id, kind=new.kind, queue=new.queue, status=Status.PENDING, priority=new.priority, attempt=0, fence=0,
        failures=0, max_attempts=new.max_attempts, progress=None, detail=None, worker=None, owner=owner, group=group,
        unique_key=new.unique_key, concurrency_key=new.concurrency_key, retry_of=None, created_at=stored.created_at,
        run_at=stored.run_at, claimed_at=None, replaced_at=None,
        ended_at=None, expires_at=stored.expires_at, requires=dict(new.wanted.requires) if new.wanted else {},
        prefers=chosen(new.wanted.prefers) if new.wanted else {}, payload=payload, result=None, error=None,
        tags=[*dict.fromkeys(tags)], waits_for=stored.behind_id, canceled_for=None,
        flow=new.flow_id, name=new.name, after=[*new.after], checkpoint=None, keep_content=new.keep_content,
        content_deleted_at=None,
    )  # fmt: skip


def with_attempts(job_id: int) -> Job:
    """The long form of one job with its attempts, whoever asks. It must be there."""
    [job] = in_full([job_id])
    attempts = [*_latest(job), *map(_ended, pages.attempts(job_id, limit=MOST_ATTEMPTS))]
    wrote = reports.fences_that_wrote(job_id, [attempt.fence for attempt in attempts])
    files = reads.files([job_id])[job_id]
    for attempt in attempts:
        attempt.has_output = attempt.fence in wrote
        attempt.files = [file(stored, by_fence=True) for stored in files if stored.attempt == attempt.fence]
    return job.model_copy(update={"attempts": attempts[:MOST_ATTEMPTS]})


def file(stored: models.ResultFile, *, by_fence: bool = False) -> ResultFile:
    """The wire form of a result file. `by_fence`: at the address that stays that attempt's."""
    url = f"{API}/jobs/{stored.job_id}/files/{stored.name}"
    url += f"?fence={stored.attempt}" if by_fence else ""
    return ResultFile(name=stored.name, size=stored.size, url=url)


# What the row and the JSON call by the same name.
_SAME: Final = (
    *("id", "kind", "queue", "status", "priority", "attempt", "failures", "max_attempts", "progress", "detail"),
    *("unique_key", "concurrency_key", "created_at", "replaced_at", "run_at", "claimed_at", "ended_at", "expires_at"),
)


def _columns(job: models.Job) -> Mapping[str, Any]:
    return {
        **{name: getattr(job, name) for name in _SAME},
        "fence": job.fence,
        "worker": job.worker_name,
        "owner": job.owner and job.owner.get_username(),
        "group": job.group and job.group.name,
        "tags": job.tags or [],
        "flow": job.flow_id,
        "retry_of": job.retry_of_id,
        "requires": job.requirement.requires if job.requirement else {},
        "prefers": chosen(job.requirement.prefers) if job.requirement else {},
    }


def _full(job: models.Job, *, error: str | None, files: Sequence[models.ResultFile], waits_for: int | None) -> Job:
    deletion = getattr(job, "content_deletion", None)
    return Job(
        **_columns(job), keep_content=models.keeps_content(job), content_deleted_at=deletion and deletion.deleted_at,
        payload=job.payload, checkpoint=job.checkpoint, result=job.result,
        error=None if job.status == Status.SUCCESS else error,
        files=[file(stored) for stored in files if stored.attempt == job.fence], waits_for=waits_for,
        inputs=[_input(job, entry) for entry in job.inputs or ()],
    )  # fmt: skip


def _input(job: models.Job, entry: Mapping[str, Any]) -> InputFile:
    return InputFile(**entry, url=f"{API}/jobs/{job.pk}/inputs/{entry['name']}")


def _latest(job: Job) -> Iterator[Attempt]:
    """The attempt that runs or succeeded, if any does: the history has those that ended otherwise."""
    if job.claimed_at is not None and job.status in {Status.IN_PROGRESS, Status.SUCCESS}:
        yield Attempt(
            attempt=job.attempt, fence=job.fence, outcome="success" if job.status is Status.SUCCESS else None,
            worker=job.worker, claimed_at=job.claimed_at, ended_at=job.ended_at, error=None, has_output=False, files=[],
        )  # fmt: skip


def _ended(attempt: models.Attempt) -> Attempt:
    return Attempt(
        attempt=attempt.attempt, fence=attempt.number, outcome=AttemptOutcome(attempt.outcome),
        worker=attempt.worker_name, claimed_at=attempt.claimed_at, ended_at=attempt.ended_at, error=attempt.error,
        has_output=False, files=[],
    )  # fmt: skip
