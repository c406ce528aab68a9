"""A job as JSON: one form for the API, the event streams and the OpenAPI document."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.contrib.auth.base_user import AbstractBaseUser
from django.db.models import QuerySet
from pydantic import BaseModel, Field

from jobs import models
from jobs.domain.states import Status
from jobs.queries import reads

API = "/api/v1"  # where the API is mounted; DESIGN section 6 fixes it


class ResultFile(BaseModel):
    """A file that the job's current attempt handed in."""

    name: str
    size: int = Field(description="Bytes.")
    url: str = Field(
        description="Where to get it, with the same key.", examples=["/api/v1/jobs/7/files/picture.png"]
    )


class JobInList(BaseModel):
    """A job without the parts that may be long."""

    id: int
    kind: str = Field(examples=["chat"])
    queue: str = Field(examples=["chat"])
    status: Status
    priority: int = Field(description="-100 to 100; higher goes first.")
    attempt: int = Field(description="Number of the current or last attempt; 0 before the first.")
    claim: int = Field(
        description="Number of the current or last claim; its output and files are kept under it. Claims that were "
        "given back or never confirmed are no attempts."
    )
    failures: int = Field(description="Attempts that failed, were lost or took too long so far.")
    max_attempts: int = Field(description="After so many of them the job has failed.")
    progress: float | None = Field(description="0 to 1, as told by the worker.")
    detail: str | None = Field(description="What the worker says it is doing.")
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


class Job(JobInList):
    """A job with everything but its output."""

    payload: Any = Field(None, description="As it was submitted. Not in event streams.")
    result: Any = Field(None, description="What the worker handed in with its success.")
    error: str | None = Field(
        None, description="How the newest attempt that failed did so; null after a success."
    )
    files: list[ResultFile] = Field(default_factory=list)


def visible_to(user: AbstractBaseUser) -> QuerySet[models.Job]:
    """The jobs that `user` may see, each read with the names that `in_list` needs."""
    return reads.visible_to(user).select_related("owner", "group")


def in_list(job: models.Job) -> JobInList:
    """The short form of a job that was read by `visible_to`: no further query."""
    return JobInList(**_line(job))


def in_full(job_ids: Sequence[int]) -> list[Job]:
    """The long form of these jobs in their order, whoever asks, by three queries however many they are.

    Jobs that are not there are left out.
    """
    jobs = models.Job.objects.select_related("owner", "group", "body").in_bulk(job_ids)
    errors, files = reads.last_errors(job_ids), reads.files(job_ids)
    found = [jobs[job_id] for job_id in job_ids if job_id in jobs]
    return [_full(job, error=errors.get(job.pk), files=files[job.pk]) for job in found]


def file(stored: models.ResultFile) -> ResultFile:
    """The wire form of a result file."""
    return ResultFile(
        name=stored.name, size=stored.size, url=f"{API}/jobs/{stored.job_id}/files/{stored.name}"
    )


# What the row and the JSON call by the same name.
_SAME = (
    *(
        "id",
        "kind",
        "queue",
        "status",
        "priority",
        "failures",
        "max_attempts",
        "progress",
        "detail",
        "unique_key",
    ),
    *("created_at", "run_at", "claimed_at", "ended_at", "expires_at"),
)


def _line(job: models.Job) -> Mapping[str, Any]:
    same = (
        "id",
        "kind",
        "queue",
        "status",
        "priority",
        "failures",
        "max_attempts",
        "progress",
        "detail",
        "unique_key",
    )
    times = ("created_at", "run_at", "claimed_at", "ended_at", "expires_at")
    return {
        **{name: getattr(job, name) for name in (*same, *times)},
        "attempt": job.attempt,
        "claim": job.claim_no,
        "worker": job.worker_name,
        "owner": job.owner and job.owner.get_username(),
        "group": job.group and job.group.name,
        "retry_of": job.retry_of_id,
    }


def _full(job: models.Job, *, error: str | None, files: Sequence[models.ResultFile]) -> Job:
    return Job(
        **_line(job),
        payload=job.body.payload,
        result=job.body.result,
        error=None if job.status == Status.SUCCESS else error,
        files=[file(stored) for stored in files if stored.attempt == job.claim_no],
    )
