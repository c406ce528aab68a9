"""What moves a batch: its file is checked, its lines become jobs slice by slice, and when these have ended its files
are written (docs/adr/0084).

A step is some seconds of that, by an action that schedules the next one. Each slice is a transaction under the lock of
the batch's row that moves its place forward together with its jobs: a step that is killed, or runs twice, goes on where
the last slice ended. No transaction reads a file, or more jobs than a slice has.
"""

import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db.models.functions import Now

from jobs import operations as jobs
from jobs.errors import QuotaReached
from live import operations as live
from metering.operations import OverBudget
from openai_api import queries
from openai_api.domain import ADDRESS, Call, batches as domain, error
from openai_api.domain.batches import LIVE, BatchStatus, Line
from openai_api.errors import CallRefused, HookFailed
from openai_api.kinds import CALL
from openai_api.models import Batch, Slice
from openai_api.operations import call_hooks, files, names
from openai_api.operations.files import Read
from outbox import operations as outbox
from postgres import clock, transactions
from ratelimits.errors import RateLimited
from scheduling import operations as scheduling
from scheduling.operations import Retry, action

STEP_S: Final = 5.0  # then other functions go on
FIRST_WAIT_S: Final = 0.25
LET_RUN: Final = timedelta(minutes=10)  # what a worker has when its batch is cancelled; as at OpenAI
LONGEST_WAIT_S: Final = 10.0  # after a step whose process died: no fault of the batch, and much of it is done
LONG_S: Final = 3600.0  # for a file to be checked, or written
ROOM_WAIT_S: Final = 60.0  # for quotas of files
_LATE: Final = timedelta(minutes=2)  # of a step, after which its chain is broken
_RESTARTED_AT_ONCE: Final = 1000
_OVER: Final = None
Hooked = tuple[Call | CallRefused, list[str]]  # a line's call as hooks let it pass, with what they did, or why not
ALL_BATCHES: Final = "batches"  # a topic


def begin(batch: Batch) -> None:
    """Schedule the first step of a new batch, in the caller's transaction."""
    scheduling.run_after(0, step, batch_id=str(batch.pk), chain=batch.chain)


def restart(batch: Batch) -> None:
    """Have this locked batch go on at once: of the chain of steps so far none does anything any more."""
    queries.save(batch, chain=batch.chain + 1, next_step_at=clock.now())
    begin(batch)


def close(batch: Batch, *, ends_as: BatchStatus) -> None:
    """Submit nothing more of this locked batch, and let it end so once its jobs have."""
    now, is_cancelled = clock.now(), ends_as is BatchStatus.CANCELLED
    status = BatchStatus.CANCELLING if is_cancelled else BatchStatus.FINALIZING
    moments = {"cancelling_at": now} if is_cancelled else {"finalizing_at": now}
    queries.save(batch, status=status, ends_as=ends_as, note="", **moments)


def topic(batch_id: UUID | str) -> str:
    return f"batch:{batch_id.hex if isinstance(batch_id, UUID) else batch_id}"


def touch(batch_id: UUID) -> None:
    """Have the pages show how a batch stands; in the transaction that changes it."""
    live.touch(ALL_BATCHES, topic(batch_id))


@action(timeout=LONG_S, idempotent=True, retry=Retry(max_attempts=20, cap=LONGEST_WAIT_S), own_writes=True)
def step(*, batch_id: str, chain: int, waited_s: float = FIRST_WAIT_S) -> None:
    """Go on with a batch for some seconds. Until it has ended each step schedules the next."""
    until, wait_s = time.monotonic() + STEP_S, 0.0
    while wait_s == 0.0 and time.monotonic() < until:
        answer = _go_on(UUID(batch_id), chain=chain, waited_s=waited_s)
        if answer is _OVER:
            return
        wait_s = answer
    queries.plan(UUID(batch_id), chain=chain, in_s=wait_s)
    scheduling.run_after(wait_s, step, batch_id=batch_id, chain=chain, waited_s=wait_s or waited_s)


@action(idempotent=True, own_writes=True)
def mend() -> int:
    """Let batches go on whose step did not come, or failed for good; how many those were. One that cannot is put aside,
    and the others go on."""
    failures, mended = scheduling.Failures(), 0
    late = Batch.objects.filter(status__in=sorted(LIVE), next_step_at__lt=Now() - _LATE).order_by("next_step_at")
    for batch_id in list(late.values_list("pk", flat=True)[:_RESTARTED_AT_ONCE]):
        with failures.aside(f"batch {batch_id}"):
            mended += _mend(batch_id)
    failures.raise_any()
    return mended


@transactions.retried
def _mend(batch_id: UUID) -> bool:
    batch = queries.locked(batch_id)
    is_broken = batch is not None and batch.is_live and batch.next_step_at < clock.now() - _LATE
    if batch is not None and is_broken:
        restart(batch)
    return is_broken


def _go_on(batch_id: UUID, *, chain: int, waited_s: float) -> float | None:
    """Do the next thing; in how many seconds to go on, _OVER when there is nothing left to do."""
    batch = queries.batch(batch_id)
    if batch is None or not batch.is_live or batch.chain != chain:
        return _OVER
    if batch.ends_as == BatchStatus.COMPLETED and (ends_as := _early_end(batch, now=clock.now())):
        return _closed(batch, ends_as=ends_as)
    if batch.status == BatchStatus.VALIDATING:
        return _validate(batch)
    return _work(batch, waited_s=waited_s)


def _early_end(batch: Batch, *, now: datetime) -> BatchStatus | None:
    if batch.status not in {BatchStatus.VALIDATING, BatchStatus.IN_PROGRESS}:
        return None
    if batch.expires_at <= now:
        return BatchStatus.EXPIRED
    is_orphan = batch.owner is None or not batch.owner.is_active
    return BatchStatus.CANCELLED if is_orphan else None


@transactions.retried
def _closed(seen: Batch, *, ends_as: BatchStatus) -> float | None:
    if (batch := _still(seen)) is None:
        return _OVER
    close(batch, ends_as=ends_as)
    touch(batch.pk)
    return 0.0


def _validate(batch: Batch) -> float | None:
    assert batch.owner is not None  # else it would have been closed
    queries.plan(batch.pk, chain=batch.chain, in_s=LONG_S)
    models = names.names(batch.owner, token_id=batch.token_id)
    checked = files.check(batch.input_file, endpoint=batch.endpoint, models=models)
    return _validated(batch, checked)


@transactions.retried
def _validated(seen: Batch, checked: files.Checked) -> float | None:
    if (batch := _still(seen)) is None:
        return _OVER
    now = clock.now()
    if checked.errors:
        queries.save(batch, errors=checked.errors, status=BatchStatus.FAILED, ended_at=now)
        _announce(batch)
        return _OVER
    queries.save(batch, status=BatchStatus.IN_PROGRESS, in_progress_at=now, next_step_at=now, total=checked.lines)
    touch(batch.pk)
    return 0.0


def _work(batch: Batch, *, waited_s: float) -> float | None:
    """Submit what there is room for, or see what has ended; write the files once all has."""
    if batch.status == BatchStatus.IN_PROGRESS and batch.submitted < batch.total:
        refused_for_s = _submit(batch)
        if refused_for_s is not None:
            batch = queries.batch(batch.pk) or batch
            return max(_count(batch, waited_s=waited_s), refused_for_s)
        batch = queries.batch(batch.pk) or batch
    if batch.ends_as != BatchStatus.COMPLETED:
        _cancel_jobs(batch)
    wait_s = _count(batch, waited_s=waited_s) if batch.outstanding else 0.0
    if wait_s or (batch.submitted < batch.total and batch.status == BatchStatus.IN_PROGRESS):
        return wait_s
    return _finish(batch)


def _submit(batch: Batch) -> float | None:
    """Slices until there is room for no more; None then. Seconds to wait where a quota or a limit says so."""
    assert batch.owner_id is not None  # else it would have been closed
    ahead, until = _most_ahead(), time.monotonic() + STEP_S
    if queries.outstanding(batch.owner_id) > ahead // 2:  # so that files elsewhere are seldom fetched
        return None
    for read in files.slices(batch.input_file, endpoint=batch.endpoint, at=batch.read_to):
        try:
            if not _submit_slice(batch, read, _hooked(batch, read)):
                return None
        except (QuotaReached, RateLimited, OverBudget, HookFailed) as refusal:
            return _wait(batch, refusal)
        if queries.outstanding(batch.owner_id) >= ahead or time.monotonic() > until:
            return None
    return None


def _most_ahead() -> int:
    """Half of what one person may have waiting is left to what else they submit."""
    quota: int = settings.JOBFARM["WAITING_JOBS_PER_OWNER"]
    return min(domain.MOST_AHEAD, quota // 2 or 1) if quota else domain.MOST_AHEAD


def _hooked(batch: Batch, read: Read) -> list[Hooked]:
    """What hooks make of these lines, before any transaction. Raises HookFailed."""

    def ask(line: Line) -> Hooked:
        try:
            return call_hooks.before(line.call, user=batch.owner, token_id=batch.token_id)
        except CallRefused as refusal:
            return refusal, []

    if not call_hooks.is_hooked(batch.endpoint):
        return [(line.call, []) for line in read.lines]
    queries.plan(batch.pk, chain=batch.chain, in_s=LONG_S)
    return call_hooks.at_once(ask, read.lines)


@transactions.retried
def _submit_slice(seen: Batch, read: Read, hooked: Sequence[Hooked]) -> bool:
    """Make these lines jobs, but for those that are refused; False if somebody else has moved the batch."""
    batch = _still(seen)
    if batch is None or batch.read_to != read.begin:
        return False
    assert batch.owner is not None  # else it would have been closed
    known = names.names(batch.owner, token_id=batch.token_id)
    passed = [(call, notes) for call, notes in hooked if isinstance(call, Call)]
    calls = [names.answered_by(call, known[call.model]) if call.model in known else call for call, _ in passed]
    made = jobs.submit_many([_job(batch, call) for call in calls])
    ids = [job_id for job_id in made if isinstance(job_id, int)]
    names.note(zip(ids, calls, strict=True), since=clock.now())
    for job_id, (_, notes) in zip(ids, passed, strict=True):
        call_hooks.note(job_id, notes)
    custom_ids, of_passed = [line.custom_id for line in read.lines], iter(ids)
    refused = {
        name: error(call.message, status=call.http_status, code=call.code)
        for name, (call, _) in zip(custom_ids, hooked, strict=True) if isinstance(call, CallRefused)
    }  # fmt: skip
    job_ids = [0 if name in refused else next(of_passed) for name in custom_ids]
    Slice.objects.create(
        batch=batch, read_from=read.begin, job_ids=job_ids, custom_ids=custom_ids, refused=refused
    )  # fmt: skip
    queries.save(
        batch, read_to=read.end, submitted=batch.submitted + len(job_ids), note="", next_step_at=clock.now()
    )  # fmt: skip
    seen.read_to = batch.read_to
    return True


def _job(batch: Batch, call: Call) -> jobs.NewJob:
    return jobs.NewJob(
        kind=CALL.name, payload=call.payload, owner=batch.owner, token_id=batch.token_id,
        queue=jobs.queue_of_model(call.model), priority=domain.PRIORITY, expires_at=batch.expires_at, may_wait=True,
    )  # fmt: skip


def _wait(batch: Batch, refusal: QuotaReached | RateLimited | OverBudget | HookFailed) -> float:
    """Note what the batch waits for, and for how long before it asks again."""
    Batch.objects.filter(pk=batch.pk).update(note=refusal.message[:300])
    return float(min(ROOM_WAIT_S, max(1.0, refusal.retry_after_s or ROOM_WAIT_S)))


def _cancel_jobs(batch: Batch) -> None:
    """Of one that is cancelled the jobs that no worker has, and after a while all; of one that expired all."""
    began = batch.cancelling_at
    is_waiting = began is not None and clock.now() < began + LET_RUN
    for part in queries.slices(batch.pk):
        if part.is_open:
            jobs.cancel_many(part.job_ids, by=None, is_waiting=is_waiting)


@transactions.retried
def _count(seen: Batch, *, waited_s: float) -> float:
    """Count what has ended of the slices whose jobs had not all; in how many seconds to look again, 0 if all have."""
    batch = queries.locked(seen.pk)
    if batch is None:
        return FIRST_WAIT_S
    parts = [part for part in queries.slices(batch.pk) if part.is_open]
    ended = jobs.count_ended({index: part.job_ids for index, part in enumerate(parts)})
    changed = [part for index, part in enumerate(parts) if ended[index] != (part.completed, part.failed)]
    more = [sum(column) for column in zip((0, 0), *_more(parts, ended), strict=True)]
    if changed:
        Slice.objects.bulk_update(changed, ["completed", "failed"])
        queries.save(batch, completed=batch.completed + more[0], failed=batch.failed + more[1])
        touch(batch.pk)
    if not batch.outstanding:
        return 0.0
    return domain.look_again_in_s(moved=sum(more), outstanding=batch.outstanding, waited_s=waited_s)


def _more(parts: Sequence[Slice], ended: dict[int, tuple[int, int]]) -> list[tuple[int, int]]:
    """How many more have ended of each slice than were counted before; the slices take the new numbers."""
    more = []
    for index, part in enumerate(parts):
        succeeded, failed = ended[index]
        more.append((succeeded - part.completed, failed - part.failed))
        part.completed, part.failed = succeeded, failed
    return more


def _finish(batch: Batch) -> float | None:
    """Write the files, outside of any transaction, and end it. Done anew if this process is killed meanwhile."""
    if batch.ends_as == BatchStatus.COMPLETED and batch.status != BatchStatus.FINALIZING:
        return _closed(batch, ends_as=BatchStatus.COMPLETED)
    queries.plan(batch.pk, chain=batch.chain, in_s=LONG_S)
    try:
        if not files.decide(batch, until=time.monotonic() + STEP_S):
            return 0.0
        written = files.write(batch)
    except (QuotaReached, HookFailed) as refusal:
        return _wait(batch, refusal)
    return _end(batch, written)


@transactions.retried
def _end(seen: Batch, written: files.Written) -> float | None:
    if (batch := _still(seen)) is None:
        return _OVER
    now, rest = clock.now(), batch.total - batch.submitted
    output, errors = files.keep_written(batch, written, until=now + timedelta(days=settings.OPENAI["FILE_DAYS"]))
    queries.save(
        batch, status=batch.ends_as, ended_at=now, output_file=output, error_file=errors, note="",
        failed=batch.failed + rest,
    )  # fmt: skip
    _announce(batch)
    return _OVER


def _announce(batch: Batch) -> None:
    """Let those who ask for events know how the batch ended."""
    data = {
        **batch.reported, "metadata": batch.metadata, "created_at": batch.created_at.isoformat(),
        "path": f"{ADDRESS}batches/{batch.public_id}",
    }  # fmt: skip
    outbox.record(f"batch.{batch.status}", f"batch/{batch.pk}", data, owner=batch.owner)
    touch(batch.pk)


def _still(seen: Batch) -> Batch | None:
    """The batch that was read before, locked; None if another chain has taken it over, or it has moved on."""
    batch = queries.locked(seen.pk)
    if batch is None or batch.chain != seen.chain or batch.status != seen.status:
        return None
    return batch
