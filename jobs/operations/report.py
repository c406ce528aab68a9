"""What a worker reports while it holds a job. Every report is fenced by the lease and is a sign of life."""

import hashlib
import math
from datetime import datetime

from django.conf import settings
from django.core.files import File
from django.core.files.storage import default_storage
from django.db import transaction

from jobs.domain import files
from jobs.domain.leases import Lease
from jobs.errors import InvalidValue, OutputGap, PayloadTooLarge
from jobs.models import ResultFile, Worker
from jobs.operations import hooks, idempotency, quotas
from jobs.queries import moves, reports
from postgres import transactions

OUTPUT_BYTES = 1_000_000  # one piece; a worker sends a sentence at a time
DETAIL_CHARACTERS = 200


def heartbeat(
    worker: Worker, job_id: int, lease: Lease, *, progress: float | None = None, detail: str | None = None
) -> datetime:
    """Renew the lease, and note progress (0 to 1) and detail (cut at 200 characters) where given.

    The first call that names a lease confirms it; any report does. Returns when the lease runs out now. Outside of a
    transaction it does not wait for the disk: a crash of the server may take back the reports of its last second, and
    nothing that was handed in. Raises LeaseLost, InvalidValue.
    """
    if progress is not None and not (math.isfinite(progress) and 0 <= progress <= 1):
        raise InvalidValue(field="progress", why=f"a share from 0 to 1, got {progress}")
    detail = None if detail is None else _storable(detail, "detail")[:DETAIL_CHARACTERS]
    rows = moves.heartbeat(worker, job_id, lease, progress=progress, detail=detail)
    if not rows:
        raise idempotency.lost(worker, job_id, lease)
    if progress is not None or detail is not None:
        hooks.changed([job_id])
    expires_at: datetime = rows[0].lease_expires_at
    return expires_at


def write_output(worker: Worker, job_id: int, lease: Lease, *, seq: int, text: str) -> int:
    """Append a piece of output; pieces of an attempt are numbered from 0. Returns the number expected next.

    The same number again is stored once. Raises LeaseLost, OutputGap (with `next_seq`) for a number further on,
    PayloadTooLarge over a megabyte, QuotaReached for what the attempt, the job, its owner or the farm has no room for,
    InvalidValue for text that PostgreSQL cannot hold.
    """
    size = _check_piece(seq, text)
    row = _written(worker, job_id, lease, seq=seq, text=text, size=size)
    if row.next_seq == seq and not row.fits:
        quotas.refuse_output(size=size, pieces=seq, of_attempt=row.output_bytes, of_job=row.job_bytes)
    if row.next_seq <= seq:
        raise OutputGap(next_seq=row.next_seq)
    if row.stored:
        quotas.note_output(row.owner_id, size)
        hooks.wrote(job_id)
    next_seq: int = row.next_seq
    return next_seq


def _written(worker: Worker, job_id: int, lease: Lease, *, seq: int, text: str, size: int) -> moves.Row:
    """Store the piece if it is the next one and has room. Once more where there was room after all; if others took
    that too, the worker is asked for the same piece again, as after a gap."""
    for _ in range(2):
        room = quotas.output_room()
        rows = moves.write_output(worker, job_id, lease, seq=seq, text=text, size=size, room=room)
        if not rows:
            raise idempotency.lost(worker, job_id, lease)
        [row] = rows
        if row.has_room or not row.fits or row.next_seq != seq:
            break
        quotas.check_output(row.owner_id, size)
    return row


def put_file(worker: Worker, job_id: int, lease: Lease, *, name: str, content: "File[bytes]") -> ResultFile:
    """Keep a result file of this attempt; the same name again replaces it.

    Raises InvalidName, PayloadTooLarge, and LeaseLost and QuotaReached, before the file is stored or after: then it is
    deleted again.
    """
    check_file(name, content)
    heartbeat(worker, job_id, lease)
    owner_id = reports.owner_of(job_id)
    quotas.check_file(job_id, owner_id=owner_id, attempt=lease.fence, name=name, size=content.size)
    stored_as = default_storage.save(f"jobs/{job_id}/{lease.fence}/{name}", content)
    try:
        return _remember(worker, job_id, lease, name=name, stored_as=stored_as, content=content)
    except BaseException:
        default_storage.delete(stored_as)
        raise


def check_file(name: str, content: "File[bytes]", *, most_bytes: int | None = None) -> None:
    """Raise InvalidName or PayloadTooLarge for a file that is kept for no job. None: at most FILE_BYTES."""
    files.check_name(name)
    limit = settings.JOBFARM["FILE_BYTES"] if most_bytes is None else most_bytes
    if content.size > limit:
        raise PayloadTooLarge(what="file", size=content.size, limit=limit)


def sha256_of(content: "File[bytes]") -> str:
    """The hash of this file, in hexadecimal digits; read in pieces."""
    digest = hashlib.sha256()
    content.seek(0)
    for chunk in content.chunks():
        digest.update(chunk)
    return digest.hexdigest()


def _check_piece(seq: int, text: str) -> int:
    size = len(_storable(text, "text").encode())
    if size > OUTPUT_BYTES:
        raise PayloadTooLarge(what="output", size=size, limit=OUTPUT_BYTES)
    if not 0 <= seq < 2**31 - 1:
        raise InvalidValue(field="seq", why=f"a whole number from 0 up, got {seq}")
    return size


@transactions.retried
def _remember(
    worker: Worker, job_id: int, lease: Lease, *, name: str, stored_as: str, content: "File[bytes]"
) -> ResultFile:
    sha256 = sha256_of(content)
    if not (held := moves.lock_held(worker, [(job_id, lease)])):
        raise idempotency.lost(worker, job_id, lease)
    owner_id = held[0].owner_id
    quotas.lock_files(owner_id)
    quotas.check_file(job_id, owner_id=owner_id, attempt=lease.fence, name=name, size=content.size)
    replaced = moves.stored_file(job_id, attempt=lease.fence, name=name)
    file = moves.keep_file(
        job_id, attempt=lease.fence, name=name, stored_as=stored_as, size=content.size, sha256=sha256
    )
    hooks.changed([job_id])
    if replaced and replaced != stored_as:
        transaction.on_commit(lambda: default_storage.delete(replaced), robust=True)
    return file


def _storable(text: str, field: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidValue(field=field, why="it holds half of a surrogate pair") from None
    if "\x00" in text:
        raise InvalidValue(field=field, why="it holds a NUL character")
    return text
