"""What a worker reports while it holds a job. Every report is fenced by the lease and is a sign of life."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.conf import settings
from django.core.files import File
from django.core.files.storage import default_storage
from django.db import OperationalError, transaction

from core import refusal
from core.large_json import Part
from core.recent import Outdated
from core.refusal import Refusal
from jobs.domain import files, outputs, payloads
from jobs.domain.leases import Beat, Lease
from jobs.domain.outputs import Piece
from jobs.domain.states import Status
from jobs.errors import InvalidValue, LeaseLost, OutputGap, PayloadTooLarge
from jobs.models import ResultFile, Worker
from jobs.operations import hooks, idempotency, quotas
from jobs.operations.edges import refusing_locked
from jobs.queries import moves, reports
from postgres import connections, transactions
from postgres.by_loop import NoAnswer
from scheduling.operations import is_away

OUTPUT_BYTES = 1_000_000  # one piece; a worker sends a sentence at a time
DETAIL_CHARACTERS = 200
CHECKPOINT_BYTES = 64_000
Held = tuple[int, Lease]


def heartbeat(
    worker: Worker, job_id: int, lease: Lease, *, progress: float | None = None, detail: str | None = None
) -> datetime:
    """Renew the lease, and note progress (0 to 1) and detail (cut at 200 characters) where given.

    The first call that names a lease confirms it; any report does. Returns when the lease runs out now. Outside of a
    transaction it does not wait for the disk: a crash of the server may take back the reports of its last second, and
    nothing that was handed in. Raises LeaseLost, InvalidValue.
    """
    beat = Beat(job_id=job_id, lease=lease, progress=progress, detail=detail)
    return refusal.raised(*heartbeats(worker, [beat]))


def heartbeats(worker: Worker, beats: Sequence[Beat]) -> list[datetime | Refusal]:
    """`heartbeat` for several jobs, in one statement: what it returns or raises, in order. Of those that name the same
    lease the last one counts. One whose row another session keeps locked for longer than LOCKED_MS is not renewed, and
    returns until when its lease holds: the next heartbeat is soon, and the worker's other jobs need theirs. Where that
    would be taken for a confirmation the error of the lock is raised, once the others are renewed."""
    checked = [refusal.value_or_refusal(_checked_beat, beat) for beat in beats]
    good = {(beat.job_id, beat.lease): beat for beat in checked if isinstance(beat, Beat)}
    ends = _renewed(worker, good)
    if missed := {lease: beat for lease, beat in good.items() if lease not in ends}:
        ends |= _renewed_after_others(worker, missed)
    leases = ((beat.job_id, beat.lease) for beat in checked if isinstance(beat, Beat))
    return refusal.in_place(checked, (ends.get(lease) or idempotency.lost(worker, *lease) for lease in leases))


@refusing_locked()
def checkpoint(worker: Worker, job_id: int, lease: Lease, value: Any, *, children: int = 0) -> datetime:
    """Keep what the job has found out so far, any JSON up to 64 kB, in place of the last: each later claim of the job
    brings it, however this attempt ends. None: no claim brings anything any more. Renews the lease; when it runs out.

    `children`: how many jobs it had submitted by then (`submit_child`): whoever goes on from here submits the next at
    this position. Raises LeaseLost, InvalidJson, PayloadTooLarge, RowLocked.
    """
    text = None
    if value is not None:
        text = payloads.encoded(value, limit_bytes=CHECKPOINT_BYTES, subject="checkpoint")
    if not (rows := moves.keep_checkpoint(worker, job_id, lease, value=text, children=children)):
        raise idempotency.lost(worker, job_id, lease)
    hooks.changed([job_id])
    expires_at: datetime = rows[0].lease_expires_at
    return expires_at


def write_output(worker: Worker, job_id: int, lease: Lease, *, seq: int, text: str) -> int:
    """Append a piece of output; pieces of an attempt are numbered from 0. Returns the number expected next.

    The same number again is stored once. Raises LeaseLost, OutputGap (with `next_seq`) for a number further on,
    PayloadTooLarge over a megabyte, QuotaReached for what the attempt, the job, its owner or the farm has no room for,
    InvalidValue for text that PostgreSQL cannot hold.
    """
    return refusal.raised(*write_outputs(worker, [Piece(job_id=job_id, lease=lease, seq=seq, text=text)]))


def write_outputs(worker: Worker, pieces: Sequence[Piece]) -> list[int | Refusal]:
    """`write_output` for several jobs, a piece of each, in one statement: what it returns or raises, in order.

    What is refused of one piece changes nothing for the others. For a row that another session keeps locked the error
    of the lock is raised after LOCKED_MS, once the others are stored.
    """
    checked = [refusal.value_or_refusal(_checked, piece) for piece in pieces]
    good = [piece for piece in checked if isinstance(piece, Piece)]
    new: list[Piece] = []
    rows, failed = _stored(worker, good), None
    if missed := [piece for piece, row in zip(good, rows, strict=True) if row is None]:
        try:
            after = iter(_stored_after_others(worker, missed))
            rows = [next(after) if row is None else row for row in rows]
        except (OperationalError, Outdated) as error:
            failed = error
    stored = [(piece, row) for piece, row in zip(good, rows, strict=True) if row is not None or failed is None]
    try:
        numbers = [refusal.value_or_refusal(_next_seq, worker, piece, row, new) for piece, row in stored]
    finally:
        if new:
            hooks.wrote(new)
    if failed is not None:
        raise failed
    return refusal.in_place(checked, numbers)


async def write_outputs_by_loop(worker: Worker, pieces: Sequence[Piece]) -> list[int | None] | None:
    """`write_outputs` by the event loop, for a worker that was recognized: the next numbers. None of a piece: there is
    more to say of it, or its row is locked; None in all: it takes a thread. Then `write_outputs` is to be called with
    the same pieces, and finds those stored that were stored here."""
    room = quotas.known_output_room()
    if room is None or any(isinstance(refusal.value_or_refusal(_checked, piece), Refusal) for piece in pieces):
        return None
    try:
        rows = await moves.write_output_by_loop(worker, pieces, room=room)
    except NoAnswer:
        hooks.may_have_written(pieces)
        return None
    if rows is None:
        return None
    if new := [(pieces[row.place - 1], row.owner_id) for row in rows if row.stored]:
        hooks.wrote_by_loop(piece for piece, _ in new)
    for piece, owner_id in new:
        if not quotas.is_output_known(owner_id):
            await connections.run(quotas.read_output, owner_id)
        quotas.note_output(owner_id, piece.size)
    numbers = {row.place: row.next_seq for row in rows if row.next_seq > pieces[row.place - 1].seq}
    return [numbers.get(place) for place in range(1, len(pieces) + 1)]


def _stored(worker: Worker, pieces: Sequence[Piece]) -> list[moves.Row | None]:
    """Store these pieces; what the statement says of each, None: its lease is lost."""
    rows = moves.write_output(worker, pieces, room=quotas.output_room()) if pieces else []
    by_place = {row.place: row for row in rows}
    return [by_place.get(place) for place in range(1, len(pieces) + 1)]


def _stored_after_others(worker: Worker, missed: Sequence[Piece]) -> list[moves.Row | None]:
    """The same once those who have the rows locked let go."""
    with transaction.atomic():
        held = moves.lock_held(worker, [(piece.job_id, piece.lease) for piece in missed])
        return _stored(worker, missed) if held else [None] * len(missed)


def _next_seq(worker: Worker, piece: Piece, row: moves.Row | None, new: list[Piece]) -> int:
    """What `write_output` returns of a piece, or raises, given what the statement says of it. One that was stored is
    `new`."""
    if row is not None and row.next_seq == piece.seq and row.fits and not row.has_room:
        # Once more where there was room after all; if others took that too, the worker is asked for the same piece
        # again, as after a gap.
        quotas.check_output(row.owner_id, piece.size)
        [row] = _stored(worker, [piece])
        if row is None:
            [row] = _stored_after_others(worker, [piece])
    if row is None:
        raise idempotency.lost(worker, piece.job_id, piece.lease)
    if row.next_seq == piece.seq and not row.fits:
        quotas.refuse_output(size=piece.size, pieces=piece.seq, of_attempt=row.output_bytes, of_job=row.job_bytes)
    if row.next_seq <= piece.seq:
        raise OutputGap(next_seq=row.next_seq)
    if row.stored:
        new.append(piece)
        quotas.read_output(row.owner_id)
        quotas.note_output(row.owner_id, piece.size)
    next_seq: int = row.next_seq
    return next_seq


def put_file(worker: Worker, job_id: int, lease: Lease, *, name: str, content: "File[bytes]") -> ResultFile:
    """Keep a result file of this attempt; the same name again replaces it. Raises InvalidName, PayloadTooLarge, and
    LeaseLost and QuotaReached, before the file is stored or after: then it is deleted again."""
    check_file(name, content)
    heartbeat(worker, job_id, lease)
    owner_id = reports.owner_of(job_id)
    quotas.check_file(job_id, owner_id=owner_id, attempt=lease.fence, name=name, size=content.size)
    stored_as = default_storage.save(f"jobs/{job_id}/{lease.fence}/{name}", content)
    try:
        return _remember(worker, job_id, lease, name=name, stored_as=stored_as, content=content)
    except BaseException as error:
        if not is_away(error):  # its row may be there: if not, the file goes as one that no row names
            default_storage.delete(stored_as)
        raise


def keep_result(worker: Worker, job_id: int, lease: Lease, whole: Part) -> None:
    """Keep the text of a result that is too long for a row, as a file of this attempt, before it is handed in.

    A lease that is lost may have been handed in before: `finish` says so. Raises as `put_file`.
    """
    with whole.open() as content, suppress(LeaseLost):
        put_file(worker, job_id, lease, name=files.RESULT, content=File(content, name=files.RESULT))


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


def _renewed(worker: Worker, beats: Mapping[Held, Beat]) -> dict[Held, datetime]:
    sent = list(beats.values())
    rows = moves.heartbeat(worker, sent) if sent else []
    renewed = [(sent[row.place - 1], row) for row in rows]
    if new := [(beat.job_id, beat.lease.fence, row.next_seq) for beat, row in renewed if beat.says_something]:
        hooks.stand({job_id: outputs.job_status(Status.IN_PROGRESS, fence, written) for job_id, fence, written in new})
    return {(beat.job_id, beat.lease): row.lease_expires_at for beat, row in renewed}


def _renewed_after_others(worker: Worker, missed: Mapping[Held, Beat]) -> dict[Held, datetime]:
    """The same once those who have the rows locked let go; of leases that are lost nothing."""
    try:
        with transaction.atomic():
            moves.lock_held(worker, list(missed))
            return _renewed(worker, missed)
    except OperationalError as error:
        ends = moves.lease_ends(worker, list(missed)) if transactions.is_passing(error) else None
        if ends is None:
            raise
        return ends


def _checked_beat(beat: Beat) -> Beat:
    if beat.progress is not None and not (math.isfinite(beat.progress) and 0 <= beat.progress <= 1):
        raise InvalidValue(field="progress", why=f"a share from 0 to 1, got {beat.progress}")
    detail = None if beat.detail is None else _storable(beat.detail, "detail")[:DETAIL_CHARACTERS]
    return replace(beat, detail=detail)


def _checked(piece: Piece) -> Piece:
    _storable(piece.text, "text")
    if piece.size > OUTPUT_BYTES:
        raise PayloadTooLarge(what="output", size=piece.size, limit=OUTPUT_BYTES)
    if not 0 <= piece.seq < 2**31 - 1:
        raise InvalidValue(field="seq", why=f"a whole number from 0 up, got {piece.seq}")
    return piece


@transactions.retried
@refusing_locked()
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
