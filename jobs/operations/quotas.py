"""Quotas of output and files: what the settings allow, and the refusal with its numbers (docs/adr/0050)."""

from collections.abc import Iterable

from django.conf import settings

from jobs.domain import quotas
from jobs.domain.quotas import Quota
from jobs.errors import QuotaReached
from jobs.queries import reports


def refuse_output(*, size: int, pieces: int, of_attempt: int, of_job: int) -> None:
    """Raise QuotaReached for a piece of so many bytes, where so many pieces and bytes were written already.

    The statement that stores pieces decides; this says why.
    """
    what = "bytes of output"
    per_piece, per_attempt = allowed("OUTPUT_PIECES_PER_ATTEMPT"), allowed("OUTPUT_BYTES_PER_ATTEMPT")
    _refuse_first(
        [
            (Quota(what=what, of="attempt", quota=per_attempt, used=of_attempt), size),
            (Quota(what=what, of="job", quota=allowed("OUTPUT_BYTES_PER_JOB"), used=of_job), size),
            (Quota(what="pieces of output", of="attempt", quota=per_piece, used=pieces), 1),
        ]
    )


def check_file(job_id: int, *, attempt: int, name: str, size: int) -> None:
    """Raise QuotaReached if a file of this name and size has no room in this attempt or job.

    One that it replaces is not counted. It stays true for as long as the caller holds the job's lock.
    """
    used = reports.files_used(job_id, attempt=attempt, but_for=name)
    per_attempt, per_job = allowed("FILES_PER_ATTEMPT"), allowed("FILES_PER_JOB")
    bytes_per_attempt, bytes_per_job = allowed("FILE_BYTES_PER_ATTEMPT"), allowed("FILE_BYTES_PER_JOB")
    what = "bytes of files"
    _refuse_first(
        [
            (Quota(what="files", of="attempt", quota=per_attempt, used=used.files), 1),
            (Quota(what=what, of="attempt", quota=bytes_per_attempt, used=used.bytes), size),
            (Quota(what="files", of="job", quota=per_job, used=used.files_of_job), 1),
            (Quota(what=what, of="job", quota=bytes_per_job, used=used.bytes_of_job), size),
        ]
    )


def allowed(setting: str) -> int:
    """What this setting allows."""
    return int(settings.JOBFARM[setting])


def _refuse_first(asked: Iterable[tuple[Quota, int]]) -> None:
    passed = quotas.first_without_room(asked)
    if passed is not None:
        quota, more = passed
        raise QuotaReached(what=quota.what, of=quota.of, quota=quota.quota, used=quota.used, more=more)
