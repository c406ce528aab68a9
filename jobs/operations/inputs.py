"""Input files: kept for their owner until no job uses them any more (docs/adr/0029)."""

import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.core.files import File
from django.core.files.storage import default_storage

from jobs.domain import files
from jobs.domain.leases import Lease
from jobs.errors import FileInUse, NoSuchFile, UnknownFile
from jobs.models import Upload, Worker
from jobs.operations import quotas
from jobs.operations.janitor import delete_files
from jobs.operations.report import check_file, heartbeat, sha256_of
from jobs.queries import inputs
from postgres import clock, transactions
from scheduling import operations as scheduling

Locked = Mapping[UUID, Any]  # rows of uploads, by their ids
FOLDER = "jobs/inputs"  # below janitor.FOLDER, where files are looked for that no row names


def upload(name: str, content: "File[bytes]", *, owner: User | None, most_bytes: int | None = None) -> Upload:
    """Keep a file for jobs to be given (`submit(files=)`). It is kept for 24 hours, and while a job uses it; longer by
    `keep_upload`.

    It counts for the quotas of its owner and the farm; None is the site itself. `most_bytes` stands in place of
    FILE_BYTES. Raises InvalidName, PayloadTooLarge and QuotaReached, before the file is stored or after: then it is
    deleted again.
    """
    check_file(name, content, most_bytes=most_bytes)
    owner_id = None if owner is None else owner.pk
    quotas.check_upload(owner_id, content.size)
    new = Upload(id=uuid.uuid4(), owner_id=owner_id, name=name, size=content.size, sha256=sha256_of(content))
    content.seek(0)
    new.stored_as = default_storage.save(f"{FOLDER}/{new.id}/{name}", content)
    try:
        return _keep(new)
    except BaseException:
        default_storage.delete(new.stored_as)
        raise


def uploaded(file_id: UUID, *, by: User) -> tuple[Upload, datetime | None]:
    """An upload of this person's, and when it is deleted: None while a job uses it. Raises NoSuchFile."""
    kept = inputs.for_owner(file_id, owner=by)
    if kept is None:
        raise NoSuchFile
    return kept, None if inputs.is_used(file_id) else expires_at(kept)


def expires_at(upload: Upload) -> datetime:
    """When this upload is deleted if no job uses it."""
    return upload.created_at + timedelta(seconds=files.UNUSED_FOR_S)


def keep_upload(file_id: UUID, *, until: datetime) -> None:
    """Keep an upload until then for the app that calls this, whether jobs use it or not. Raises NoSuchFile."""
    if not inputs.keep_until(file_id, until):
        raise NoSuchFile


@transactions.retried
def delete_upload(file_id: UUID, *, by: User, also_kept: bool = False) -> None:
    """Delete an upload of this person's. It goes also from the pages of jobs that used it and ended.

    Raises NoSuchFile, and FileInUse while a job that has not ended uses it, or an app keeps it (`keep_upload`), which
    alone passes `also_kept`.
    """
    locked = inputs.for_owner(file_id, owner=by, lock=True)
    if locked is None:
        raise NoSuchFile
    if locked.kept_until is not None and locked.kept_until > clock.now() and not also_kept:
        raise FileInUse("This file was not uploaded for jobs alone: delete it where it was uploaded.")
    if inputs.is_used(file_id, by_live=True):
        raise FileInUse
    inputs.delete(locked)
    scheduling.run_after(0, delete_files, names=[locked.stored_as])


def read_input(worker: Worker, job_id: int, lease: Lease, *, name: str) -> Upload:
    """The upload that this job has under this name, for the worker that holds it; a sign of life, as any report.

    Raises LeaseLost, NoSuchFile.
    """
    heartbeat(worker, job_id, lease)
    kept = inputs.one(job_id, name=name)
    if kept is None:
        raise NoSuchFile
    return kept


def lock(wanted: Iterable[tuple[User | None, Mapping[str, UUID] | None]], *, by: User | None) -> Locked:
    """The uploads of new jobs, each with who gives it, locked until the end of the caller's transaction. Where none
    has any, nothing is asked of the database.

    A person may give their own, and what jobs have that they may see; the site itself (`by` None) also its own, and
    where it is nobody's job (None), any. Raises UnknownFile.
    """
    ids_of: dict[User | None, set[UUID]] = {}
    for who, references in wanted:
        if references:
            ids_of.setdefault(who, set()).update(references.values())
    if not ids_of:
        return {}
    locked = inputs.lock(list(set().union(*ids_of.values())))
    for who, ids in ids_of.items():
        own = {who and who.pk, who.pk if who and by else None}
        foreign = [each for each in ids if each not in locked or (who and locked[each].owner_id not in own)]
        if refused := set(foreign) - (inputs.seen_in_jobs(foreign, by=who) if who and foreign else set()):
            raise UnknownFile(file=str(min(refused)))
    return locked


def keep(jobs: Iterable[tuple[int, Mapping[str, UUID] | None]], locked: Locked) -> None:
    """Note what these new jobs, by their ids, have of the locked uploads; in the transaction that stores them."""
    described = {
        job_id: [_described(name, locked[upload_id]) for name, upload_id in references.items()]
        for job_id, references in jobs
        if references
    }
    if described:
        inputs.keep(described)


def _described(name: str, row: Any) -> dict[str, Any]:
    return {
        "name": name, "size": row.size, "sha256": row.sha256, "type": files.type_of(row.name),
        "file": str(row.id), "filename": row.name,
    }  # fmt: skip


@transactions.retried
def _keep(new: Upload) -> Upload:
    quotas.lock_files(new.owner_id)
    quotas.check_upload(new.owner_id, new.size)
    new.save(force_insert=True)
    return new
