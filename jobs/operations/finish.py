"""How a run ends: the worker hands in results, gives a job back, or somebody cancels it."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property, partial
from typing import Any, Literal

from django.conf import settings
from django.contrib.auth.models import User

from core import audit
from core.refusal import CancelVerdict, Refusal, value_or_refusal
from jobs import kinds
from jobs.domain import leases, outputs, payloads, states
from jobs.domain.flows import AT_ONCE, Wait
from jobs.domain.leases import Lease
from jobs.domain.states import ENDED, LIVE, AttemptOutcome, Status
from jobs.models import Job, Worker
from jobs.operations import content, edges, events, hooks, idempotency, queues, waits
from jobs.operations.edges import refusing_locked
from jobs.queries import bulks, flows, moves, reads
from jobs.queries.moves import Settlement
from postgres import transactions

ERROR_CHARACTERS = 100_000  # of a traceback; the rest is cut
_RNG = random.SystemRandom()


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What a worker hands in for one job. `result` is kept of a success, `error` and `retryable` of a failure; one that
    is suspended is pending, and due again when what it is to `wait` for is there. `ran_s`: seconds that it ran, of a
    queue that is shared out; before it lay ready, for at most one heartbeat interval."""

    job_id: int
    lease: Lease
    outcome: Literal["success", "failed", "suspended"]
    result: Any = None
    error: str = ""
    retryable: bool = True
    wait: Wait = AT_ONCE
    ran_s: float | None = None

    @cached_property
    def encoded(self) -> str | None:
        """What is stored of the result. Raises InvalidJson, PayloadTooLarge for one that cannot be stored."""
        if self.outcome != "success" or self.result is None:
            return None
        return payloads.encoded(self.result, limit_bytes=settings.JOBFARM["PAYLOAD_BYTES"], subject="result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation:
    """What a cancel came to, and the job's status after it."""

    verdict: CancelVerdict
    status: Status


@transactions.retried
@refusing_locked()
def finish(worker: Worker, finished: Sequence[Finished]) -> list[Status | Refusal]:
    """Settle jobs that `worker` ran, all in one transaction: each one's new status in order, or as a value LeaseLost,
    or what keeps it from being suspended: NotAChild where it waits for others than its own. That one's lease holds on.

    A failure goes back to pending with backoff and jitter until its attempts are used up or it is not retryable.
    The same lease again is answered as the first time, whatever it hands in now. Raises InvalidJson or PayloadTooLarge
    for a result that cannot be stored, RowLocked where another session has had a row locked for LOCKED_MS; then nothing
    is settled.
    """
    return hand_in(worker, finished)[0]


def hand_in(worker: Worker, finished: Sequence[Finished]) -> tuple[list[Status | Refusal], bool]:
    """`finish`, in the caller's transaction, which the errors of locks leave as they are; and whether something was
    taken that was not taken before."""
    if not are_successes(finished):
        return answered(worker, finished, _settle_held(worker, finished))
    successes = Successes.of(finished)
    moved = moves.succeed(worker, successes.leases, results=successes.results, runs=successes.runs)
    return answered(worker, finished, successes.announce(moved))


def are_successes(finished: Sequence[Finished]) -> bool:
    """Whether nothing is to be decided about any of these: one statement locks and settles them."""
    return all(entry.outcome == "success" for entry in finished)


def answered(
    worker: Worker, finished: Sequence[Finished], decided: Mapping[int, Status | Refusal]
) -> tuple[list[Status | Refusal], bool]:
    """What `hand_in` returns, where `decided` has the answers of those leases that hold their jobs, by place.

    Leases that hold nothing may have been handed in before, by a call whose answer was lost."""
    remaining = [index for index in range(len(finished)) if index not in decided]
    past = idempotency.finished_before(worker, [_key(finished[index]) for index in remaining]) if remaining else []
    answers = dict(decided) | dict(zip(remaining, past, strict=True))
    is_new = any(isinstance(answer, Status) for answer in decided.values())
    return [answers[index] for index in range(len(finished))], is_new


@transactions.retried
@refusing_locked()
def release(worker: Worker, job_id: int, lease: Lease) -> None:
    """Give a job back: pending at once, and not counted as an attempt; the same again changes nothing.

    One that is given back again and again waits a while from the fourth time in a row on. Raises LeaseLost, RowLocked.
    """
    rows = moves.lock_held(worker, [(job_id, lease)])
    if not rows and idempotency.was_released(worker, job_id, lease):
        return
    settle([decide(rows[0], AttemptOutcome.RELEASED, retryable=True, error="given back by the worker")], rows=rows)


@transactions.retried
def withdraw(worker: Worker, leases: Sequence[tuple[int, Lease]]) -> list[int]:
    """Take back at once what `worker` was given and does not begin, or what could not be sent to it: as if never
    claimed. The jobs that wait again.

    A lease that it has named meanwhile, or lost, is left alone, as is one whose row is locked: it goes back by itself.
    """
    rows = [row for row in moves.lock_held(worker, leases, skips=True) if row.confirmed_fence < row.fence]
    never_claimed = [
        Settlement(
            job_id=row.id, fence=row.fence, status=Status.PENDING, failures=row.failures, releases=row.releases,
            unconfirmed=row.unconfirmed, avoid=_avoid(row),
        )
        for row in rows
    ]  # fmt: skip
    return list(settle(never_claimed, rows=rows))


@transactions.retried
def cancel(job_id: int, *, by: User | None) -> Cancellation:
    """Cancel a job and say truthfully what that came to. `by` None is the system itself.

    One that no worker ever had gives back what it reserved of its kind's limit.
    Raises NotFound (also for a job that `by` may not see), NotAllowed (for one that `by` may only look at).
    """
    job = reads.operable(job_id, by=by, lock=True)
    if Status(job.status) in ENDED:
        return Cancellation(verdict=CancelVerdict.TOO_LATE, status=Status(job.status))
    verdict = cancel_locked([job], by=by)[job.pk]
    audit.record(by, job, verdict.value.replace("_", " "))
    return Cancellation(verdict=verdict, status=Status.CANCELED)


@transactions.retried
def cancel_many(job_ids: Sequence[int], *, by: User | None, is_waiting: bool = False) -> int:
    """Cancel those of these jobs that have not ended, or with `is_waiting` those that no worker has; how many that
    were. The caller knows that `by` may do so (None: the system itself), and writes the audit line."""
    locked = bulks.lock_jobs(job_ids, states={Status.PENDING} if is_waiting else LIVE)
    return len(cancel_locked(locked, by=by))


def cancel_locked(jobs: Sequence[Job], *, by: User | None) -> dict[int, CancelVerdict]:
    """Cancel jobs that have not ended and whose rows the caller has locked, and those that they have submitted: what
    that came to, for each of the former."""
    error = f"canceled by {'the system' if by is None else by.get_username()}"
    verdicts, generation = _cancel(jobs, {job.pk: error for job in jobs}), jobs
    while parents := [job.pk for job in generation if job.in_flow]:
        parent_of = flows.to_cancel_with(parents)
        generation = bulks.lock_jobs(parent_of, states=LIVE)
        flows.note_canceled({job.pk: parent_of[job.pk] for job in generation})
        _cancel(generation, {pk: f"{error}: with job {one}, which submitted it" for pk, one in parent_of.items()})
    return verdicts


def _cancel(jobs: Sequence[Job], errors: Mapping[int, str]) -> dict[int, CancelVerdict]:
    waiting = [job for job in jobs if job.status == Status.PENDING]
    running = [job for job in jobs if job.status == Status.IN_PROGRESS]
    edges.end_waiting(waiting, to=Status.CANCELED, errors=errors)
    # The jobs are locked rows like the others; their columns have the same names.
    canceled = AttemptOutcome.CANCELED
    settle([decide(job, canceled, retryable=False, error=errors[job.pk]) for job in running], rows=running)
    for worker_id in {job.worker_id for job in running if job.worker_id is not None}:
        hooks.stopped(worker_id)
    suspended = flows.suspended({job.pk: job.fence for job in waiting if job.confirmed_fence})
    return {
        job.pk: states.cancel_verdict(
            Status(job.status), confirmed_fence=job.confirmed_fence, is_suspended=job.pk in suspended
        )
        for job in waiting + running
    }


def decide(row: Any, outcome: AttemptOutcome, *, retryable: bool, error: str) -> Settlement:
    """What becomes of the locked job `row` whose attempt ended so. Whom it hides from is decided by `settle`."""
    judgement = leases.judge(
        outcome, failures=row.failures, max_attempts=row.max_attempts, retryable=retryable, releases=row.releases,
        delay_s=partial(queues.backoff_of(row.kind).delay_s, rng=_RNG), unconfirmed=row.unconfirmed,
        most=settings.JOBFARM["UNCONFIRMED_LEASES"],
    )  # fmt: skip
    avoid = _avoid(row) if judgement.status is Status.PENDING else ()
    error = error[:ERROR_CHARACTERS]
    return Settlement(job_id=row.id, fence=row.fence, avoid=avoid, error=error, **judgement._asdict())


def _avoid(row: Any) -> Sequence[int]:
    """Who leaves it to others still: nobody, once one of them had it, since then the grace is over."""
    return () if row.avoid is None or row.worker_id in row.avoid else row.avoid


def settle(settlements: Sequence[Settlement], *, rows: Any) -> dict[int, Status]:
    """Write the settlements of locked jobs and announce them; each job's new status. Used by the janitor too."""
    if not settlements:
        return {}
    locked = {row.id: row for row in rows}
    moved = moves.settle(_hidden_from_those_who_failed(settlements, locked))
    hooks.changed([row.id for row in moved], "workers")
    hooks.settled(moved, settlements=settlements, locked=locked)
    events.settled(moved, settlements=settlements, locked=locked)
    content.ended([row.id for row in moved if row.status != Status.PENDING and locked[row.id].is_metered])
    edges.let_go(moved)
    for row in moved:
        if row.status == Status.PENDING:
            hooks.available(row.queue, at=row.run_at if row.delayed else None)
            if row.avoids:  # who is to leave it to others may have it after the grace
                hooks.available(row.queue, at=row.run_at + timedelta(seconds=settings.JOBFARM["EXCLUSION_S"]))
        if row.made_room:
            hooks.available(row.queue)
    return {row.id: Status(row.status) for row in moved}


@dataclass(frozen=True, slots=True, kw_only=True)
class Successes:
    """Successes to be handed in, each lease once: a lease that is named twice ends its job once."""

    leases: list[tuple[int, Lease]]
    places: list[int]  # of each lease: which of the finished names it first
    results: list[str | None]
    runs: list[moves.Run]

    @classmethod
    def of(cls, finished: Sequence[Finished]) -> "Successes":
        """What is to be stored of these. Raises InvalidJson, PayloadTooLarge."""
        first: dict[tuple[int, Lease], int] = {}
        for index, entry in enumerate(finished):
            first.setdefault(_key(entry), index)
        places = list(first.values())
        results = [entry.encoded for entry in finished]
        return cls(leases=[*first], places=places, results=[results[one] for one in places], runs=_runs(finished))

    def announce(self, moved: Sequence[Any]) -> dict[int, Status]:
        """What has to be known of those that ended; their new status by place."""
        if moved:
            results = {row.id: self.results[row.place - 1] for row in moved}
            states = {row.id: outputs.job_status(Status.SUCCESS, row.fence, row.next_seq) for row in moved}
            hooks.stand(states, "workers")
            hooked = {row.id: row for row in moved if row.kind in kinds.HOOKS}
            ends = [_success(row, results[pk]) for pk, row in hooked.items()]
            hooks.settled(hooked.values(), settlements=ends, locked=hooked)
            events.succeeded(moved, results=[*results.values()])
            hooks.available(*{row.counted_in for row in moved} - {None})
            content.ended([row.id for row in moved if row.is_metered])
            edges.went_on(moved)
        return {self.places[row.place - 1]: Status(row.status) for row in moved}


def _settle_held(worker: Worker, finished: Sequence[Finished]) -> dict[int, Status | Refusal]:
    """Settle those whose leases hold their jobs: what became of each, by place."""
    _ = [entry.encoded for entry in finished]  # before anything is settled
    waits.lock_keys(entry.wait for entry in finished)
    rows = {
        (row.id, Lease(fence=row.fence, secret=row.lease_secret)): row
        for row in moves.lock_held(worker, [_key(entry) for entry in finished])
    }
    mine = {index: rows.pop(key) for index, key in enumerate(map(_key, finished)) if key in rows}
    decided = {i: value_or_refusal(_settlement, finished[i], row) for i, row in mine.items()}
    settlements = {i: one for i, one in decided.items() if isinstance(one, Settlement)}
    moves.note_runs(worker, _runs([finished[i] for i in settlements]))
    settled = settle(list(settlements.values()), rows=[mine[i] for i in settlements])
    refused = {_key(finished[i]): one for i, one in decided.items() if isinstance(one, Refusal)}
    answers: dict[int, Status | Refusal] = {i: settled[one.job_id] for i, one in settlements.items()}
    return answers | {i: refused[key] for i, key in enumerate(map(_key, finished)) if key in refused}


def _key(entry: Finished) -> tuple[int, Lease]:
    return entry.job_id, entry.lease


def _runs(finished: Sequence[Finished]) -> list[moves.Run]:
    """How long those ran that say so: before, they lay ready at their worker."""
    return [(entry.job_id, entry.lease, entry.ran_s) for entry in finished if entry.ran_s is not None]


def _settlement(entry: Finished, row: Any) -> Settlement:
    if entry.outcome == "failed":
        error = entry.error.replace("\x00", "�").encode(errors="replace").decode()
        return decide(row, AttemptOutcome.FAILED, retryable=entry.retryable, error=error)
    if entry.outcome == "suspended":
        suspended = decide(row, AttemptOutcome.SUSPENDED, retryable=True, error="")
        return replace(suspended, avoid=(), run_at=waits.begin(row.id, entry.wait))
    return _success(row, entry.encoded)


def _success(row: Any, result: str | None) -> Settlement:
    return Settlement(job_id=row.id, fence=row.fence, status=Status.SUCCESS, failures=row.failures, result=result)


def _hidden_from_those_who_failed(settlements: Sequence[Settlement], rows: dict[int, Any]) -> list[Settlement]:
    """A job that goes back after a failure leaves its worker alone, if another live worker could take it."""
    avoid = {s.job_id: sorted({*s.avoid, rows[s.job_id].worker_id}) for s in settlements if _failed(s)}
    if not avoid:
        return list(settlements)
    others = moves.jobs_others_could_take([(rows[job_id], workers) for job_id, workers in avoid.items()])
    return [
        replace(s, avoid=avoid[s.job_id] if s.job_id in others else ()) if s.job_id in avoid else s for s in settlements
    ]


def _failed(settlement: Settlement) -> bool:
    """Whether its worker is to leave it to others: not what it gave back or never got, nor the first lease that no call
    named."""
    if settlement.outcome is AttemptOutcome.UNCONFIRMED:
        return settlement.unconfirmed > 1
    was_returned = settlement.outcome in {AttemptOutcome.RELEASED, AttemptOutcome.SUSPENDED, None}
    return settlement.status is Status.PENDING and not was_returned and settlement.blames_worker
