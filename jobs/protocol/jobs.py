"""A job as JSON: one form for the API, the event streams and the OpenAPI document."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from django.contrib.auth.base_user import AbstractBaseUser
from django.db.models import QuerySet
from pydantic import BaseModel, Field, Strict

from core.values import BIGINT, Whole
from jobs import models
from jobs.domain.states import AttemptOutcome, Status
from jobs.queries import pages, reads, reports
from jobs.queries.submits import Stored

MOST_ATTEMPTS = 50  # in one answer
API = "/api/v1"  # where the API is mounted; DESIGN section 6 fixes it

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
    """A file that the job was given."""

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
    retry_of: int | None = Field(description="The ended job that this one tries again.")
    created_at: datetime
    run_at: datetime = Field(description="Not before this moment.")
    claimed_at: datetime | None
    ended_at: datetime | None
    expires_at: datetime | None = Field(description="Not started by then: timed_out.")
    requires: dict[str, str] = Field(description="Conditions on the labels of its worker.", examples=[{"vram": ">=16"}])
    prefers: dict[str, str] = Field(description="The same, of the workers that get it first.")


class Attempt(BaseModel):
    """One attempt: what became of it, and what of it can be read."""

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

    payload: Any = Field(None, description="As it was submitted. Not in event streams.")
    result: Any = Field(None, description="What the worker handed in with its success.")
    error: str | None = Field(None, description="How the newest attempt that failed did so; null after a success.")
    files: list[ResultFile] = Field(default_factory=list)
    inputs: list[InputFile] = Field(default_factory=list, description="The files that it was given.")
    attempts: list[Attempt] = Field(
        default_factory=list, description=f"The latest first, {MOST_ATTEMPTS} at most. Not in event streams."
    )


def visible_to(user: AbstractBaseUser) -> QuerySet[models.Job]:
    """The jobs that `user` may see, each read with the names that `in_list` needs."""
    return reads.visible_to(user).select_related("owner", "group", "requirement")


def in_list(job: models.Job) -> JobInList:
    """The short form of a job that was read by `visible_to`: no further query."""
    return JobInList(**_columns(job))


def in_full(job_ids: Sequence[int]) -> list[Job]:
    """The long form of these jobs in their order, whoever asks, by three queries however many they are.

    Jobs that are not there are left out.
    """
    jobs = models.Job.objects.whole().select_related("owner", "group", "requirement").in_bulk(job_ids)
    errors, files = reads.errors(list(jobs.values())), reads.files(job_ids)
    rows = [jobs[job_id] for job_id in job_ids if job_id in jobs]
    return [_full(job, error=errors.get(job.pk), files=files[job.pk]) for job in rows]


def fresh(stored: Stored, *, payload: Any, owner: str, group: str | None) -> Job:
    """The long form of a job that was stored just now, from what it was stored from: no query."""
    new = stored.record
    return Job(
        id=stored.id, kind=new.kind, queue=new.queue, status=Status.PENDING, priority=new.priority, attempt=0, fence=0,
        failures=0, max_attempts=new.max_attempts, progress=None, detail=None, worker=None, owner=owner, group=group,
        unique_key=new.unique_key, retry_of=None, created_at=stored.created_at, run_at=stored.run_at, claimed_at=None,
        ended_at=None, expires_at=stored.expires_at, requires=dict(new.wanted.requires) if new.wanted else {},
        prefers=dict(new.wanted.prefers) if new.wanted else {}, payload=payload, result=None, error=None,
    )  # fmt: skip


def with_attempts(job_id: int) -> Job:
    """The long form of one job with its attempts, whoever asks. It must be there."""
    [job] = in_full([job_id])
    ended = pages.attempts(job_id, limit=MOST_ATTEMPTS)
    latest = _latest(job)
    fences = [attempt.number for attempt in ended] + ([latest.fence] if latest else [])
    wrote = reports.fences_that_wrote(job_id, fences)
    files = reads.files([job_id])[job_id]
    attempts = [latest] if latest else []
    attempts += [_ended(attempt) for attempt in ended]
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
    *("unique_key", "created_at", "run_at", "claimed_at", "ended_at", "expires_at"),
)


def _columns(job: models.Job) -> Mapping[str, Any]:
    return {
        **{name: getattr(job, name) for name in _SAME},
        "fence": job.fence,
        "worker": job.worker_name,
        "owner": job.owner and job.owner.get_username(),
        "group": job.group and job.group.name,
        "retry_of": job.retry_of_id,
        "requires": job.requirement.requires if job.requirement else {},
        "prefers": job.requirement.prefers if job.requirement else {},
    }


def _full(job: models.Job, *, error: str | None, files: Sequence[models.ResultFile]) -> Job:
    return Job(
        **_columns(job), payload=job.payload, result=job.result, error=None if job.status == Status.SUCCESS else error,
        files=[file(stored) for stored in files if stored.attempt == job.fence],
        inputs=[_input(job, entry) for entry in job.inputs or ()],
    )  # fmt: skip


def _input(job: models.Job, entry: Mapping[str, Any]) -> InputFile:
    return InputFile(**entry, url=f"{API}/jobs/{job.pk}/inputs/{entry['name']}")


def _latest(job: Job) -> Attempt | None:
    """The attempt that runs or succeeded: the history has those that ended otherwise."""
    if job.claimed_at is None or job.status not in {Status.IN_PROGRESS, Status.SUCCESS}:
        return None
    return Attempt(
        attempt=job.attempt, fence=job.fence, outcome="success" if job.status is Status.SUCCESS else None,
        worker=job.worker,
        claimed_at=job.claimed_at, ended_at=job.ended_at, error=None, has_output=False, files=[],
    )  # fmt: skip


def _ended(attempt: models.Attempt) -> Attempt:
    return Attempt(
        attempt=attempt.attempt, fence=attempt.number, outcome=AttemptOutcome(attempt.outcome),
        worker=attempt.worker_name,
        claimed_at=attempt.claimed_at, ended_at=attempt.ended_at, error=attempt.error, has_output=False, files=[],
    )  # fmt: skip
