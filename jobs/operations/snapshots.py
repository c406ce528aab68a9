"""For other apps, about a job: its status, and what it made. Whose it is, is for them to know."""

from dataclasses import dataclass

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser

from jobs.domain import files
from jobs.domain.states import Status
from jobs.errors import NotFound
from jobs.models import ResultFile
from jobs.queries import pages, reads


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSnapshot:
    """How a job stands. `attempt` is its claim number, 0 while no worker ever had it; `progress` from 0 to 1."""

    status: Status
    attempt: int
    progress: float | None
    detail: str
    worker_name: str


def snapshot(job_id: int) -> JobSnapshot:
    """The status of this job now. Raises NotFound."""
    job = pages.job(job_id)
    if job is None:
        raise NotFound
    return JobSnapshot(
        status=Status(job.status),
        attempt=job.fence,
        progress=job.progress,
        detail=job.detail or "",
        worker_name=job.worker_name or "",
    )


def sees_all(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Whether `user` may look at everybody's jobs."""
    return reads.is_operator(user)


def pictures(job_id: int, *, attempt: int) -> list[str]:
    """The names of the pictures that this attempt handed in; previews only if there is nothing else."""
    return files.pictures(pages.file_names(job_id, attempt=attempt), has_ended=True)


def result_file(job_id: int, *, name: str, attempt: int) -> ResultFile:
    """A file that this attempt handed in, for `jobs.http.sent` and `jobs.http.signed_path`. Raises NotFound."""
    stored = pages.file(job_id, name=name, attempt=attempt)
    if stored is None:
        raise NotFound
    return stored
