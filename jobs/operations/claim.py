"""Claiming: home queues first, and from other queues only when idle; alone, or in the transaction of a finish.

Jobs are taken lane by lane, each from its mark on, and the lanes are tidied afterwards (docs/adr/0112). The queues that
a worker polls are noted on its row (docs/adr/0007).
"""

import contextlib
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction

from core.refusal import Refusal
from jobs.domain import outputs
from jobs.domain.states import Status
from jobs.errors import QueueNotAllowed, UnknownQueue
from jobs.models import Worker
from jobs.operations import handed_out, hooks, idempotency, lanes
from jobs.operations.edges import refusing_locked
from jobs.operations.finish import Finished, Successes, answered, are_successes, hand_in
from jobs.operations.handed_out import ClaimedJob
from jobs.operations.queues import ANY_QUEUE
from jobs.queries import fleet, keys, moves
from live import operations as live
from observing import numbers
from postgres import transactions

MOST = 1000  # jobs in one claim
# What became of each that was handed in, the jobs that come with that, and how many were left out of these; None: none
# of them was claimed by this call.
_Both = tuple[list[Status | Refusal], list[ClaimedJob], int | None]


class _SomeLost(Exception):
    """Not all of the leases that are handed in hold their jobs: what becomes of each is to be decided in turn."""


class _IsRepeat(Exception):
    """The call claimed jobs when it was made before, which are its answer."""


def claim(
    worker: Worker, *, queues: Sequence[str] | None = None, limit: int = 1, request_id: str | None = None
) -> list[ClaimedJob]:
    """Lease up to `limit` pending jobs (1,000 at most) to `worker`; empty only if there are none for it.

    A drained worker is given nothing (`operations.drain`).

    Its home queues are served in their order, or `queues` in theirs. Only if they have nothing and the worker holds
    no job does it steal from the other queues it is allowed, and of its claims at one moment one.

    A lease is unconfirmed until the first call that names it: not confirmed within one heartbeat interval, it goes back
    and was no attempt.

    `request_id` is a name of the worker's choice for this one call: the same call again, since its answer was lost, is
    given what it claimed the first time, as far as that still stands and is unconfirmed. Raises UnknownQueue for a
    queue that nobody named yet, QueueNotAllowed for one this worker may not take from.
    """
    home, steals = _allowed(worker, queues)
    request = idempotency.claim_key(worker, request_id)
    if worker.drained_at is not None:
        return [] if request is None else _claimed_before(worker, request)
    note_polled(worker, queues)
    while True:
        try:
            taken, discarded = _whole_round(worker, home, steals, limit=min(limit, MOST), request=request)
        except _IsRepeat:
            return _claimed_before(worker, request) if request else []
        _count(taken)
        # Those that this worker of a member's may take may have lain in lanes where it does not look, and do no more.
        if taken or not (discarded or (worker.owner_id is not None and lanes.part(owner_id=worker.owner_id) > 0)):
            return taken


def finish_and_claim(
    worker: Worker,
    finished: Sequence[Finished],
    *,
    limit: int,
    unless_lost: bool = False,
    request_id: str | None = None,
) -> tuple[list[Status | Refusal], list[ClaimedJob]]:
    """`finish`, then `claim` for up to `limit` jobs of the worker's own queues (0: none), in one transaction.

    One transaction waits for the disk once, and a call that broke half-way changed nothing, so that it can be made
    again: then it is answered as the first time, with those of the jobs that were claimed then whose leases still stand
    and are unconfirmed. `request_id` names the call (`claim`); without it, the leases that it hands in do.
    `unless_lost`: nothing is claimed if a lease was lost, or one was refused. Raises as `finish` does.
    """
    request = idempotency.finish_key(worker, request_id, [(entry.job_id, entry.lease) for entry in finished])
    most, is_plain = min(limit, MOST), are_successes(finished) and not transactions.is_serializable()
    both = None
    if limit and finished and is_plain and worker.drained_at is None:
        with contextlib.suppress(_SomeLost):
            both = _together(worker, finished, limit=most, request=request)
    answers, taken, discarded = both or _in_turn(worker, finished, limit=most, unless_lost=unless_lost, request=request)
    if discarded is not None:
        _count(taken)
    if discarded and not taken:
        taken = claim(worker, limit=limit)
    return answers, taken


def note_polled(worker: Worker, queues: Sequence[str] | None) -> None:
    """Note that `worker` polls these queues, in this order; None: all that its key may take.

    Nothing is written for a worker that never names queues, and while another asks for the same only once in a third of
    WORKER_ALIVE_S. What it asked for before is kept for so long, so that one which takes turns between its queues asks
    for all of them.
    """
    names = [ANY_QUEUE] if queues is None or list(queues) == [*worker.queues, *worker.steals] else list(queues)
    if _is_known(worker, names):
        return
    with transaction.atomic():
        noted = keys.note_polled(worker.pk, names)
        if noted is not None and set(noted.was or [ANY_QUEUE]) != set(noted.polled_queues or [ANY_QUEUE]):
            live.touch("workers")
    if noted is not None:
        worker.polled_queues, worker.polled_at = noted.polled_queues, noted.polled_at


def _claimed_before(worker: Worker, request: UUID) -> list[ClaimedJob]:
    """What an earlier sending of this call claimed and no call has named since. Of most calls there was none: that is
    one round trip."""
    rows = transactions.alone(lambda: moves.claimed_before(worker, request))
    return _handed_out_again(worker, rows) if rows else []


_handed_out_again = transactions.retried(handed_out.again)


def _claim_once(
    worker: Worker, *, limit: int, request: UUID | None, rows: list[moves.Row] | None = None
) -> tuple[list[ClaimedJob], int]:
    """The first round of `claim`, in the caller's transaction: what it took, and how many it had to leave out.

    After the commit `count` them; if some were left out and nothing was taken, there may be more: call `claim`.
    """
    if worker.drained_at is not None:
        return [], 0
    home, steals = _allowed(worker, None)
    note_polled(worker, None)
    return _round(worker, home, steals, limit=limit, request=request, rows=rows)


def _round(
    worker: Worker,
    home: Sequence[str],
    steals: Sequence[str],
    *,
    limit: int,
    request: UUID | None,
    rows: list[moves.Row] | None = None,
) -> tuple[list[ClaimedJob], int]:
    """Jobs for this worker, and how many more were taken that nobody is to have now (`preparing`). `rows`: they are
    leased already.

    In the caller's transaction, which ends with the round: each of those has ended, or waits for another attempt,
    whatever the next round meets. None follows one that took something: if it broke, the worker would not know.
    """
    if rows is None:
        rows = moves.claim(worker, queues=home, limit=limit, only_if_idle=False, request=request)
    _tidy_after(rows, queues=home, limit=limit)
    if not rows and steals and keys.begin_to_steal(worker):
        every = _once([*steals, *(fleet.known_queues() if ANY_QUEUE in steals else ())])
        others = [queue for queue in every if queue not in home and queue != ANY_QUEUE]
        rows = moves.claim(worker, queues=others, limit=limit, only_if_idle=True, request=request)
        _tidy_after(rows, queues=others, limit=limit)
    if not rows:
        return [], 0
    hooks.stand({row.id: outputs.job_status(Status.IN_PROGRESS, row.fence) for row in rows}, "workers")
    taken = handed_out.to(worker, rows)
    return taken, len(rows) - len(taken)


def _tidy_after(rows: Sequence[moves.Row], *, queues: Sequence[str], limit: int) -> None:
    """Tidy the lanes that so many jobs at most were taken from, once that is committed; and let others look again."""
    taken, is_short = [(row.queue, row.lane_id) for row in rows], len(rows) < limit
    transaction.on_commit(lambda: lanes.after_claim(taken, queues=queues, is_short=is_short), robust=True)
    # What this claim picked or locked, and has not, it kept from others.
    hooks.available(*{row.queue for row in rows if row.has_key or (row.is_counted and is_short)})


@transactions.retried
def _whole_round(
    worker: Worker, home: Sequence[str], steals: Sequence[str], *, limit: int, request: UUID | None
) -> tuple[list[ClaimedJob], int]:
    """As if the call had not been made before. Raises _IsRepeat if it was: then nothing has happened."""
    rows = None
    if request is not None:
        before, rows = moves.claim_named(worker, queues=home, limit=limit, request=request)
        if before:
            raise _IsRepeat
    return _round(worker, home, steals, limit=limit, request=request, rows=rows)


def _count(taken: Sequence[ClaimedJob]) -> None:
    for queue, jobs in Counter(claimed.queue for claimed in taken).items():
        numbers.CLAIMED.labels(queue).inc(jobs)


def _allowed(worker: Worker, requested: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """Where to look, and where to steal: each queue once, for the statement's work grows with every mention."""
    home, steals = _once(worker.queues), _once(worker.steals)
    if requested is None:
        return home, steals
    requested = _once(requested)
    known = keys.known_queues(queue for queue in requested if "\x00" not in queue)
    for queue in requested:
        if queue not in known:
            raise UnknownQueue(queue=queue)
        if queue not in home and queue not in steals and ANY_QUEUE not in steals:
            raise QueueNotAllowed(queue=queue)
    return [queue for queue in requested if queue in home], [queue for queue in requested if queue not in home]


def _once(queues: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(queues))


@transactions.retried
@refusing_locked()
def _together(worker: Worker, finished: Sequence[Finished], *, limit: int, request: UUID) -> _Both:
    """Both in one round trip, as if no lease were lost. Raises _SomeLost if one is: then nothing has happened."""
    successes = Successes.of(finished)
    claiming = moves.claim_call(worker, queues=_once(worker.queues), limit=limit, request=request)
    moved, rows = moves.succeed_and_claim(
        worker, successes.leases, results=successes.results, runs=successes.runs, claim=claiming
    )
    if len(moved) < len(successes.leases):
        raise _SomeLost
    answers, _ = answered(worker, finished, successes.announce(moved))
    return answers, *_claim_once(worker, limit=limit, request=request, rows=rows)


@transactions.retried
@refusing_locked()
def _in_turn(worker: Worker, finished: Sequence[Finished], *, limit: int, unless_lost: bool, request: UUID) -> _Both:
    answers, is_new = hand_in(worker, finished)
    if not limit or (unless_lost and any(isinstance(answer, Refusal) for answer in answers)):
        return answers, [], None
    if finished and not is_new:  # where all were refused, the call may be a repeat, or not
        before = _claimed_before(worker, request)
        if before or not all(isinstance(answer, Refusal) for answer in answers):
            return answers, before, None
    return answers, *_claim_once(worker, limit=limit, request=request)


def _is_known(worker: Worker, names: Sequence[str]) -> bool:
    if worker.polled_queues is None or worker.polled_at is None:
        return list(names) == [ANY_QUEUE]
    if worker.read_at is None:  # by nobody who came with its key: how old the notes are is not known
        return False
    known: dict[str, datetime] = dict(zip(worker.polled_queues, worker.polled_at, strict=True))
    since = worker.read_at - timedelta(seconds=settings.JOBFARM["WORKER_ALIVE_S"] / 3)
    return all(name in known and known[name] > since for name in names)
