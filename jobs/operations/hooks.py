"""What learns of a change: live queries and waiting workers by their topics, apps by the hooks of their kinds.

Topics are published after the commit. Hooks are called in the transaction of the move, which stands whatever an app's
function does: an app's fault must not cost a worker its result, nor stop the janitor. What the function wrote before it
failed is rolled back alone (docs/adr/0026).
"""

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar

from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.db import transaction

from jobs import kinds
from jobs.domain import outputs, payloads
from jobs.domain.hooks import Discard, Move, OnTransition, Prepare, Prepared
from jobs.domain.outputs import Piece
from jobs.domain.states import AttemptOutcome, Status
from jobs.models import Attempt, Job, Worker
from jobs.queries import moves, reads
from jobs.queries.moves import Settlement
from live import operations as live
from live.registry import Item
from observing import fields
from postgres import transactions
from scheduling import context, operations as crons

# Crons that find something to do when something happened to a job, and how soon they are to find it.
COUNT_JOBS: Final = "count jobs for the charts"
MEASURE_USAGE: Final = "measure usage"
COUNTED_WITHIN_S: Final = 10.0
_count_soon: Final = partial(crons.hasten, COUNT_JOBS, MEASURE_USAGE, within_s=COUNTED_WITHIN_S)
Viewer = AbstractBaseUser | AnonymousUser
OfJob = TypeVar("OfJob", Move, Prepared)
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A row of another app: how it belongs to the job ("Started by"), what it is, and its page. `note` says more about
    it."""

    label: str
    text: str
    url: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareFailed:
    """Instead of a payload: it cannot be read, or the kind's `prepare` failed for this job."""

    error: str
    retryable: bool = True


Provider = Callable[[int, Viewer], Iterable[Link]]
_providers: list[tuple[Provider, str | None]] = []


def submitted(due: Iterable[tuple[str, datetime | None]], job_ids: Collection[int]) -> None:
    """New jobs exist; `due` holds (queue, when it may start, or None for at once) of each.

    Their own topics are not named: nobody can have read a job before it was there. Who follows what comes hears
    between which ids they are.
    """
    live.touch("jobs", f"new:{min(job_ids)}-{max(job_ids)}", *(_work(queue, at) for queue, at in due))
    _count_soon()


def changed(job_ids: Iterable[int], *extra: str) -> None:
    """Something about these jobs changed."""
    live.touch("jobs", *(f"job:{job_id}" for job_id in job_ids), *extra)
    _count_soon()


def stand(states: Mapping[int, Mapping[str, Any]], *extra: str) -> None:
    """These jobs, which a worker has or had, changed: they stand so now (`domain.outputs.job_status`)."""
    items = {f"job:{job_id}": Item(cursor=outputs.moment(**state), data=state) for job_id, state in states.items()}
    live.append(items, "jobs", *extra)
    _count_soon()


def available(*queues: str, at: datetime | None = None) -> None:
    """Something that was there before may now (or at a later moment) be claimable in these queues."""
    live.touch(*(_work(queue, at) for queue in queues))


def freed_keys(job_ids: Sequence[int]) -> None:
    """These jobs ended, and had unique_keys: who waited behind them is due."""
    if job_ids and (due := moves.followers_now_due(job_ids)):
        changed([row.id for row in due])
        for row in due:
            available(row.queue, at=row.run_at if row.is_later else None)


def wrote(pieces: Iterable[Piece]) -> None:
    """These pieces, of a job each, are stored."""
    live.append(_items(pieces))


def wrote_by_loop(pieces: Iterable[Piece]) -> None:
    """The same of pieces that are committed, by the event loop."""
    live.append_committed(_items(pieces))


def may_have_written(pieces: Iterable[Piece]) -> None:
    """Whether these are committed is not known: who watches them reads."""
    live.publish([f"output:{one.job_id}" for one in pieces])


def _items(pieces: Iterable[Piece]) -> dict[str, Item]:
    return {f"output:{one.job_id}": outputs.item(one.lease.fence, one.seq, one.text) for one in pieces}


def stopped(worker_id: int) -> None:
    """A job of this worker was taken from it, or its key changed: it looks at what it holds."""
    live.touch(f"worker:{worker_id}")


def claimed(rows: Iterable[Any], *, worker_name: str) -> None:
    """These jobs are in progress now, with this worker."""
    _notify(
        Move(
            job_id=row.id, kind=row.kind, attempt=row.fence, worker_name=worker_name,
            from_=Status.PENDING, to=Status.IN_PROGRESS,
        )
        for row in rows if row.kind in kinds.HOOKS
    )  # fmt: skip


def settled(moved: Iterable[Any], *, settlements: Iterable[Settlement], locked: dict[int, Any]) -> None:
    """The attempts of these jobs ended: `on_transition` are the rows as they stand now, `locked` as they were."""
    rows = [row for row in moved if locked[row.id].kind in kinds.HOOKS]
    if rows:
        by_job = {settlement.job_id: settlement for settlement in settlements}
        _notify(_ended(row, by_job[row.id], locked[row.id]) for row in rows)


def ended_waiting(jobs: Iterable[Any], *, to: Status, errors: Mapping[int, str]) -> None:
    """These jobs ended while they waited. They have an id, a kind and the number of their last confirmed claim."""
    _notify(
        Move(
            job_id=job.id, kind=job.kind, attempt=job.confirmed_fence, from_=Status.PENDING, to=to, error=errors[job.id]
        )
        for job in jobs
        if job.kind in kinds.HOOKS
    )  # fmt: skip


def retried(job: Any, *, retry_of: int) -> None:
    """This new job is another try of the ended one."""
    if job.kind in kinds.HOOKS:
        reserved = job.run_at if job.limit_until else None
        common: dict[str, Any] = {"job_id": job.id, "kind": job.kind, "attempt": 0}
        _notify([Move(**common, from_=None, to=Status.PENDING, run_at=reserved, retry_of=retry_of)])


@contextmanager
def on_behalf_of(job_id: int) -> Iterator[None]:
    """Remember the functions that are scheduled in the block as made by this job. Its page shows them.

    A hook that gets one move is in such a block already. One that gets many at once, and schedules something for
    each, puts each into one of its own.
    """
    with context.noting() as made:
        yield
    if made:
        moves.keep_offspring(job_id, function_ids=made)


def resync(job_ids: Iterable[int]) -> list[int]:
    """Report each job's status to the hooks of its kind once more; the ids of those that exist.

    For an app whose own rows fell behind because its hook failed. The jobs are locked meanwhile, so what is reported is
    true until it is stored. `from_` is None, since where they came from is not known any more.
    """
    ids = sorted(job_ids)
    try:
        with transaction.atomic():
            jobs = reads.locked(ids)
            ended = reads.last_attempts([job.pk for job in jobs])
            _notify(_move(job, ended.get(job.pk)) for job in jobs if job.kind in kinds.HOOKS)
        return [job.pk for job in jobs]
    except ValueError:  # of what is stored of one of them: jsonb holds numbers that Python does not read
        if len(ids) > 1:
            return [job_id for each in ids for job_id in resync([each])]
        log.exception("the job %d cannot be read, and its app hears nothing of it", ids[0])
        return ids


def register_links(provider: Provider, *, kind: str | None = None) -> Provider:
    """Show on the page of each job (of this kind) what `provider(job id, viewer)` returns: only what that viewer may
    see. For an app's `hooks.py`, also as a decorator."""
    _providers.append((provider, kind))
    return provider


def links(job: Any, *, viewer: Viewer) -> list[Link]:
    return [link for provider, kind in _providers if kind in {None, job.kind} for link in provider(job.pk, viewer)]


def prepare(worker: Worker, rows: Sequence[moves.Row], stored: Mapping[int, Any]) -> dict[int, Any]:
    by_kind: dict[str, list[Prepared]] = defaultdict(list)
    for row in rows:
        job = Prepared(
            job_id=row.id, kind=row.kind, attempt=row.fence, payload=stored[row.id],
            worker_id=worker.pk, worker_name=worker.name,
        )  # fmt: skip
        by_kind[row.kind].append(job)
    answers: dict[int, Any] = {}
    for kind, jobs in by_kind.items():
        prepare = kinds.HOOKS[kind].prepare
        if prepare is not None:
            answers |= _called(partial(_answers, prepare), jobs, "preparing jobs of the kind %s failed: %s")
    return answers


def _work(queue: str, at: datetime | None) -> str:
    return f"work:{queue}" if at is None else f"due:{queue}:{int(at.timestamp() * 1000)}"


def _ended(row: Any, settlement: Settlement, was: Any) -> Move:
    status = Status(row.status)
    return Move(
        job_id=row.id, kind=was.kind, attempt=was.fence, worker_name=was.worker_name or "", from_=Status.IN_PROGRESS,
        to=status, outcome=settlement.outcome, error=settlement.error or "",
        result=None if settlement.result is None else json.loads(settlement.result),
        run_at=row.run_at if status is Status.PENDING else None,
    )  # fmt: skip


def _notify(moves: Iterable[Move]) -> None:
    by_kind: dict[str, list[Move]] = defaultdict(list)
    for move in moves:
        by_kind[move.kind].append(move)
    for kind, mine in by_kind.items():
        hook = kinds.HOOKS[kind].on_transition
        if hook is not None:
            _called(partial(_report, hook), mine, "the hook of the kind %s failed for the moves of %s, which stand")


def _report(hook: OnTransition, moves: Sequence[Move]) -> dict[int, Any]:
    with on_behalf_of(moves[0].job_id) if len(moves) == 1 else nullcontext():
        hook(moves)
    return {}


def _move(job: Job, last: Attempt | None) -> Move:
    status = Status(job.status)
    last = last if last is not None and last.number == job.fence else None
    return Move(
        job_id=job.pk, kind=job.kind, attempt=job.fence, from_=None, to=status, worker_name=job.worker_name or "",
        outcome=AttemptOutcome(last.outcome) if last else None, error=last.error if last else "",
        result=job.result if status is Status.SUCCESS else None,
        run_at=job.run_at if status is Status.PENDING else None,
    )  # fmt: skip


def _called(call: Callable[[Sequence[OfJob]], dict[int, Any]], jobs: Sequence[OfJob], failure: str) -> dict[int, Any]:
    """What one call for all of them answers; if that fails, one for each, so that one job's fault is not its
    neighbours': then it is PrepareFailed for that one, and a line in the log."""
    try:
        with transaction.atomic():
            return call(jobs)
    except Exception as error:
        if transactions.collided(error):  # the whole transaction is to run again, and nothing of it is lost
            raise
        with fields.about(kind=jobs[0].kind, job_id=jobs[0].job_id if len(jobs) == 1 else None):
            log.exception(failure, jobs[0].kind, ", ".join(str(job.job_id) for job in jobs))
        if len(jobs) == 1:
            return {jobs[0].job_id: PrepareFailed(error=f"the farm could not prepare it: {crons.reason_of(error)}")}
    return {job_id: answer for job in jobs for job_id, answer in _called(call, [job], failure).items()}


def _answers(prepare: Prepare, jobs: Sequence[Prepared]) -> dict[int, Any]:
    answers = prepare(jobs)
    mine = {job.job_id: answers[job.job_id] for job in jobs if job.job_id in answers}
    for answer in mine.values():
        if not isinstance(answer, Discard):  # what cannot be sent would cost the worker its whole claim
            payloads.encoded(answer, limit_bytes=settings.JOBFARM["PAYLOAD_BYTES"], subject="payload")
    return mine
