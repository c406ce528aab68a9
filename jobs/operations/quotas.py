"""Quotas of output and files: what the settings allow, and the refusal with its numbers (docs/adr/0057)."""

import time
from collections.abc import Iterable, Iterator
from typing import Final

from django.conf import settings

from jobs.domain import quotas
from jobs.domain.quotas import Ledger, Quota, Room
from jobs.errors import QuotaReached
from jobs.models import ALL_JOBS
from jobs.queries import reports, usage
from jobs.queries.reports import FilesUsed
from jobs.queries.usage import Used

OUTPUT: Final = Ledger()  # bytes of output by owner, as this process knows it
# With less room than this an owner's room is read for each piece; a piece has a megabyte at most.
_NEAR_BYTES: Final = 16_000_000
_ANY_BYTES: Final = 2**62


def refuse_output(*, size: int, pieces: int, of_attempt: int, of_job: int) -> None:
    """Raise QuotaReached for a piece of so many bytes, where so many pieces and bytes were written already.

    The statement that stores pieces decides; this says why.
    """
    resource = "bytes of output"
    per_piece, per_attempt = allowed("OUTPUT_PIECES_PER_ATTEMPT"), allowed("OUTPUT_BYTES_PER_ATTEMPT")
    refuse_first(
        [
            (Quota(resource=resource, of="attempt", quota=per_attempt, used=of_attempt), size),
            (Quota(resource=resource, of="job", quota=allowed("OUTPUT_BYTES_PER_JOB"), used=of_job), size),
            (Quota(resource="pieces of output", of="attempt", quota=per_piece, used=pieces), 1),
        ]
    )


def output_room() -> Room:
    """How much more output fits, as far as this process knows; a statement more where that was read 5 s ago."""
    per_owner, in_all = bound("OUTPUT_BYTES_PER_OWNER"), bound("OUTPUT_BYTES_IN_ALL")
    near = [] if per_owner is None else OUTPUT.near(most=per_owner - _NEAR_BYTES)
    watched = [owner for owner in near if owner != ALL_JOBS] + ([] if in_all is None else [ALL_JOBS])
    _read_output(watched)
    return Room(
        farm=_ANY_BYTES if in_all is None else max(0, in_all - OUTPUT.used(ALL_JOBS)),
        owners={
            owner: max(0, per_owner - OUTPUT.used(owner)) for owner in near if per_owner and owner != ALL_JOBS
        },
    )


def note_output(owner_id: int | None, size: int) -> None:
    """Count a piece that was stored. Of an owner that this process has not read for 5 s, one statement."""
    OUTPUT.add(ALL_JOBS, size)
    if owner_id is not None and bound("OUTPUT_BYTES_PER_OWNER") is not None:
        _read_output([owner_id])
        OUTPUT.add(owner_id, size)


def check_output(owner_id: int | None, size: int) -> None:
    """Read what owner and farm have now, running jobs included; raise QuotaReached if so many bytes have no room."""
    now_s = time.monotonic()
    requested: list[tuple[Quota, int]] = []
    for owner, of, quota in _whose(owner_id, "OUTPUT_BYTES"):
        used = usage.of([owner])[owner].output_bytes + usage.running_output(owner)
        OUTPUT.read(owner, used, now_s=now_s)
        requested.append((Quota(resource="bytes of output", of=of, quota=quota, used=used), size))
    refuse_first(requested)


def lock_files(owner_id: int | None) -> None:
    """Let no other file of this owner be checked until the end of this transaction: their quotas hold exactly."""
    if owner_id is not None and (bound("FILES_PER_OWNER") or bound("FILE_BYTES_PER_OWNER")):
        usage.lock(owner_id)


def check_file(job_id: int, *, owner_id: int | None, attempt: int, name: str, size: int) -> None:
    """Raise QuotaReached if a file of this name and size has no room in this attempt or job, with its owner, or in all.

    One that it replaces is not counted. Of attempt and job it stays true for as long as the caller holds the job's
    lock, of the owner with `lock_files`. Of the farm it is true at this moment: files that come at once may pass it.
    """
    used = reports.files_used(job_id, attempt=attempt, but_for=name)
    refuse_first(_of_job(used, size))
    refuse_first(_of_owner(used, size, owner_id=owner_id))


def allowed(setting: str) -> int:
    """What this setting allows."""
    return int(settings.JOBFARM[setting])


def bound(setting: str) -> int | None:
    """What this setting of an owner or the farm allows; None: there is no quota."""
    return allowed(setting) or None


def refuse_first(requested: Iterable[tuple[Quota, int]]) -> None:
    """Raise QuotaReached for the first of these quotas that has no room for so many more."""
    passed = quotas.first_without_room(requested)
    if passed is not None:
        quota, more = passed
        raise QuotaReached(what=quota.resource, of=quota.of, quota=quota.quota, used=quota.used, more=more)


def _read_output(owners: Iterable[int]) -> None:
    now_s = time.monotonic()
    if stale := [owner for owner in owners if not OUTPUT.is_fresh(owner, now_s=now_s)]:
        for owner, used in usage.of(stale).items():
            OUTPUT.read(owner, used.output_bytes, now_s=now_s)


def _whose(owner_id: int | None, setting: str) -> Iterator[tuple[int, str, int]]:
    """The owners in whose usage a job of this one is, with the word for it and the quota; none without a quota."""
    if owner_id is not None and (per_owner := bound(f"{setting}_PER_OWNER")) is not None:
        yield owner_id, "owner", per_owner
    if (in_all := bound(f"{setting}_IN_ALL")) is not None:
        yield ALL_JOBS, "farm", in_all


def _of_job(used: FilesUsed, size: int) -> Iterator[tuple[Quota, int]]:
    per_attempt, per_job = allowed("FILES_PER_ATTEMPT"), allowed("FILES_PER_JOB")
    bytes_per_attempt, bytes_per_job = allowed("FILE_BYTES_PER_ATTEMPT"), allowed("FILE_BYTES_PER_JOB")
    resource = "bytes of files"
    yield Quota(resource="files", of="attempt", quota=per_attempt, used=used.files), 1
    yield Quota(resource=resource, of="attempt", quota=bytes_per_attempt, used=used.bytes), size
    yield Quota(resource="files", of="job", quota=per_job, used=used.files_of_job), 1
    yield Quota(resource=resource, of="job", quota=bytes_per_job, used=used.bytes_of_job), size


def _of_owner(used: FilesUsed, size: int, *, owner_id: int | None) -> Iterator[tuple[Quota, int]]:
    stored: dict[int, Used] = usage.of([ALL_JOBS] if owner_id is None else [owner_id, ALL_JOBS])
    for owner, of, quota in _whose(owner_id, "FILES"):
        yield Quota(resource="files", of=of, quota=quota, used=stored[owner].files - used.files_replaced), 1
    for owner, of, quota in _whose(owner_id, "FILE_BYTES"):
        others = stored[owner].file_bytes - used.bytes_replaced
        yield Quota(resource="bytes of files", of=of, quota=quota, used=others), size
