"""Input files: kept for their owner until no job uses them any more (docs/adr/0029)."""

import json
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.core.files import File
from django.core.files.storage import default_storage
from django.db import connection

from core import large_json
from core.large_json import Cut, Part, Path
from core.refusal import Refusal
from jobs.domain import files
from jobs.domain.leases import Lease
from jobs.domain.records import JobRecord
from jobs.errors import FileInUse, NoSuchFile, PayloadTooLarge, UnknownFile
from jobs.models import Job, Upload, Worker
from jobs.models.inputs import PARTS
from jobs.operations import quotas
from jobs.operations.content import delete_later
from jobs.operations.new_jobs import NewJob
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
    _store(new, content, f"{FOLDER}/{new.id}/{name}")
    return new


def uploaded(file_id: UUID, *, by: User) -> tuple[Upload, datetime | None]:
    """An upload of this person's, and when it is deleted: None while a job uses it. Raises NoSuchFile."""
    kept = inputs.for_owner(file_id, owner=by)
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
    if locked.kept_until is not None and locked.kept_until > clock.now() and not also_kept:
        raise FileInUse("This file was not uploaded for jobs alone: delete it where it was uploaded.")
    if inputs.is_used(file_id, by_live=True):
        raise FileInUse
    inputs.delete(locked)
    delete_later([locked.stored_as])


def read_input(worker: Worker, job_id: int, lease: Lease, *, name: str) -> Upload:
    """The upload that this job has under this name, for the worker that holds it; a sign of life, as any report.

    Raises LeaseLost, NoSuchFile.
    """
    heartbeat(worker, job_id, lease)
    return inputs.one(job_id, name=name)


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


def keep(jobs: Iterable[tuple[int, JobRecord]], locked: Locked) -> None:
    """Note what these new jobs, by their ids, have of the locked uploads; in the transaction that stores them."""
    described = {
        job_id: [
            _described(name, locked[upload_id], (record.places or {}).get(name))
            for name, upload_id in record.files.items()
        ]
        for job_id, record in jobs
        if record.files
    }
    if described:
        inputs.keep(described)


def whole_payload(job: Job) -> Any:
    """The payload of a job with its parts, all of it in memory. Raises NoSuchFile where one was deleted."""
    parts: list[tuple[Path, Any]] = []
    for name, paths in files.places_of(job.inputs or ()).items():
        with default_storage.open(inputs.one(job.pk, name=name).stored_as) as file:
            value = file.read()
        parts += [(path, json.loads(value)) for path in paths]
    return large_json.put_together(job.payload, parts)


def with_parts(new_jobs: Sequence[NewJob], records: Sequence[JobRecord]) -> Sequence[JobRecord]:
    """The records with what was cut out of their payloads, which is stored here (docs/adr/0135).

    Raises QuotaReached, and PayloadTooLarge where what is left and the places of the parts are too long for a row.
    """
    _lock_parts(new_jobs, records)
    whole = [*records]
    try:
        for place, new in enumerate(new_jobs):
            if isinstance(new["payload"], Cut):
                whole[place] = _with_parts(new["payload"], records[place])
    except Refusal:
        let_go(whole)
        raise
    return whole


@contextmanager
def stored_ahead(payloads: Iterable[Any], *, owner_id: int | None, unless: Callable[[], bool]) -> Iterator[None]:
    """Store what was cut out of these payloads before the block, whose transaction then finds it there: a storage may
    take its time, and what that transaction locks (a limit, a quota, a job) others wait for. Where the block is refused
    they go soon; `unless` says that it needs none, since all was done before. Raises QuotaReached."""
    parts = [part for payload in payloads if isinstance(payload, Cut) for part in payload.parts]
    stored = _kept(parts, owner_id) if parts and not unless() else {}
    try:
        yield
    except Refusal:
        _age(stored.values())
        raise


def _lock_parts(new_jobs: Sequence[NewJob], records: Sequence[JobRecord]) -> None:
    """Where all of them are stored in one transaction, what is there is locked in one order, or two could wait for each
    other."""
    hashes: dict[int | None, list[str]] = {}
    for new, record in zip(new_jobs, records, strict=True):
        if isinstance(new["payload"], Cut):
            hashes.setdefault(record.owner_id, []).extend(part.sha256 for part in new["payload"].parts)
    if connection.in_atomic_block:
        for owner_id in sorted(hashes, key=lambda one: one or 0):
            inputs.touch_parts(hashes[owner_id], owner_id=owner_id)


def let_go(records: Iterable[JobRecord]) -> None:
    """Keep the parts of jobs that were refused for an hour more, and not for a day: they count for their owner. Whoever
    comes with them again meanwhile has them renewed."""
    _age([record.files[name] for record in records if record.files for name in record.places or ()])


def _age(parts: Collection[UUID]) -> None:
    if parts and not connection.in_atomic_block:  # which takes them back itself
        inputs.age(parts)


def _with_parts(payload: Cut, record: JobRecord) -> JobRecord:
    places: dict[str, list[Path]] = {}
    for part in payload.parts:
        places.setdefault(part.name, []).append(part.path)
    limit = settings.JOBFARM["PAYLOAD_BYTES"]
    # At least: the paths of parts that lie deep repeat the names around them, and are written only if short.
    size = len(record.payload) + sum(len(str(step)) for part in payload.parts for step in part.path)
    if size <= limit:
        size = len(record.payload) + len(json.dumps(places))
    if size > limit:
        raise PayloadTooLarge(what="payload without its long texts", size=size, limit=limit)
    return record._replace(files={**(record.files or {}), **_kept(payload.parts, record.owner_id)}, places=places)


def _kept(parts: Iterable[Part], owner_id: int | None) -> dict[str, UUID]:
    """The uploads of these parts, by name. What their owner has is stored once; all are kept for another 24 hours."""
    by_hash = {part.sha256: part for part in parts}
    kept = inputs.touch_parts(by_hash, owner_id=owner_id)
    missing = sorted(by_hash.keys() - kept)
    try:
        for part in map(by_hash.__getitem__, missing):
            quotas.check_upload(owner_id, part.size)
            new = Upload(
                id=uuid.uuid4(), owner_id=owner_id, name=f"{part.name}.json", size=part.size, sha256=part.sha256
            )  # fmt: skip
            with part.open() as content:
                _store(new, File(content, name=new.name), f"{PARTS}/{new.id}.json", is_part=True)
    except Refusal:
        _age(inputs.touch_parts(missing, owner_id=owner_id).values())
        raise
    kept |= inputs.touch_parts(missing, owner_id=owner_id) if missing else {}
    return {part.name: kept[sha256] for sha256, part in by_hash.items()}


def _store(new: Upload, content: "File[bytes]", path: str, *, is_part: bool = False) -> None:
    """Store the file and its row; without the row the file goes again."""
    new.stored_as = default_storage.save(path, content)
    is_kept = False
    try:
        is_kept = _keep(new, is_part=is_part)
    except Exception as error:
        is_kept = scheduling.is_away(error)  # its row may be there: if not, the file goes as one that no row names
        raise
    finally:
        if not is_kept:
            default_storage.delete(new.stored_as)


def _described(name: str, row: Any, places: Sequence[Path] | None) -> dict[str, Any]:
    return {
        "name": name, "size": row.size, "sha256": row.sha256, "type": files.type_of(row.name),
        "file": str(row.id), "filename": row.name, **({"at": places} if places else {}),
    }  # fmt: skip


@transactions.retried
def _keep(new: Upload, *, is_part: bool = False) -> bool:
    """Write the row of a stored file; whether it is the first, of a part that may be written by others as well."""
    quotas.lock_files(new.owner_id)
    quotas.check_upload(new.owner_id, new.size)
    Upload.objects.bulk_create([new], ignore_conflicts=is_part)
    return not is_part or Upload.objects.filter(pk=new.pk).exists()
