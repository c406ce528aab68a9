"""The database work of a worker's socket. Each function is one piece of work for a thread."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from core import refusal
from core.refusal import Refusal
from jobs import operations
from jobs.domain.leases import Lease
from jobs.domain.outputs import Piece
from jobs.domain.states import Status
from jobs.models import Live, Worker
from jobs.operations import ClaimedJob
from jobs.protocol import answers, messages, verbs
from jobs.protocol.answers import Ended, EndedMany, EndedOne
from jobs.protocol.messages import Call
from jobs.protocol.verbs import Finish, FinishMany, Leased
from jobs.queries import moves, reads
from jobs.queries.reads import Interest
from observing import fields

Leases = dict[int, Lease]
LOST = "lease_lost"
MOST_BY_LOOP = 100_000  # characters of output at once: to check and to encode a megabyte takes one to two milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A worker that connected: what it holds already, and what it waits for."""

    worker: Worker
    leases: Leases
    interest: Interest


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What became of a worker while nobody looked: which of its jobs were taken from it and why; what it
    waits for."""

    stopped: Mapping[int, str]
    interest: Interest
    is_drained: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Performed:
    """The answer to a verb, also as the worker gets it: megabytes for a hundred jobs, which no event loop is to write.
    After a claim that got less than it wanted, what the worker waits for."""

    answer: BaseModel
    text: str
    waits_for: Interest | None


def arrive(key: str) -> Arrival:
    """Let a worker in. Raises InvalidKey."""
    worker = operations.authenticate(key)
    fields.note(worker=worker.name)
    running = Live.objects.filter(worker_id=worker.pk, lease_secret__isnull=False)
    held = running.values_list("pk", "fence", "lease_secret")
    return Arrival(
        worker=worker,
        leases={pk: Lease(fence=fence, secret=secret) for pk, fence, secret in held if secret},
        interest=verbs.interest(worker, None),
    )


def examine(key: str, leases: Leases, queues: Sequence[str] | None) -> Examined:
    """Look again after something about the worker changed. Raises InvalidKey: then nothing else matters."""
    worker = operations.authenticate(key)
    gone = reads.stopped(list(leases.items())) if leases else []
    past = moves.past_leases(worker, [(pk, leases[pk]) for pk in gone]) if gone else []
    return Examined(
        stopped={pk: _why_stopped(row) for pk, row in zip(gone, past, strict=True)},
        interest=verbs.interest(worker, queues),
        is_drained=verbs.is_drained(worker),
    )


def _why_stopped(past: moves.Row) -> str:
    """Whether the job was canceled or ran too long, be that its end or not; else only that the lease is lost."""
    reasons = {Status.CANCELED.value, Status.TIMED_OUT.value}
    return next((why for why in (past.status, past.outcome) if why in reasons), LOST)


def perform(key: str, call: Call) -> Performed:
    """Perform a worker's call.

    The key is checked each time, as it is over HTTP: a revoked one does nothing more.

    Raises InvalidKey and whatever the verb refuses.
    """
    worker = operations.recognize(key) if call.verb.recognizes else operations.authenticate(key)
    about = () if call.job_id is None else (call.job_id,)
    with fields.about(worker=worker.name, job_id=call.job_id):
        answer = call.verb.perform(worker, *about, call.body)
    is_short = len(claimed(answer)) < wanted_jobs(call)
    waits_for = verbs.interest(worker, queues(call)) if is_short else None
    return Performed(answer=answer, text=messages.answer(call, answer), waits_for=waits_for)


def jobs_of(call: Call) -> set[int]:
    """The jobs that a call names."""
    match call.body:
        case FinishMany(finished=named) | verbs.Heartbeats(jobs=named) | verbs.Unclaim(jobs=named):
            return {each.id for each in named}
    return set() if call.job_id is None else {call.job_id}


def write(key: str, calls: Sequence[Call]) -> list[Performed | Refusal]:
    """`perform` pieces of output, of a job each, in one statement: what it returns or refuses, in order.

    Raises InvalidKey, and what makes all of them fail.
    """
    worker = operations.recognize(key)
    job_id = calls[0].job_id if len(calls) == 1 else None
    with fields.about(worker=worker.name, job_id=job_id):
        written = verbs.write_outputs(worker, _pieces(calls))
    return [
        each if isinstance(each, Refusal) else _performed(call, each) for call, each in zip(calls, written, strict=True)
    ]


async def write_by_loop(key: str, calls: Sequence[Call]) -> list[Performed | None]:
    """`write` without a thread; None: it takes one, since it is much, or something is to be read, refused or waited
    for."""
    worker = operations.remembered(key)
    read = [refusal.value_or_refusal(verbs.piece, *piece) for piece in _pieces(calls)]
    pieces = [piece for piece in read if isinstance(piece, Piece)]
    if worker is None or len(pieces) < len(read) or sum(len(piece.text) for piece in pieces) > MOST_BY_LOOP:
        return [None] * len(calls)
    numbers = await operations.write_outputs_by_loop(worker, pieces) or [None] * len(calls)
    return [
        None if number is None else _performed(call, answers.Written(next_seq=number))
        for call, number in zip(calls, numbers, strict=True)
    ]


def _performed(call: Call, answer: BaseModel) -> Performed:
    return Performed(answer=answer, text=messages.answer(call, answer), waits_for=None)


def _pieces(calls: Sequence[Call]) -> list[tuple[int, verbs.Output]]:
    return [
        (call.job_id, call.body) for call in calls if call.job_id is not None and isinstance(call.body, verbs.Output)
    ]


def withdraw(key: str, leases: Leases) -> None:
    """Take back jobs whose answer could not be delivered. Raises InvalidKey."""
    operations.withdraw(operations.authenticate(key), list(leases.items()))


def without_claiming(call: Call) -> Call | None:
    """The part of a verb that is still worth doing for a worker that has gone; None: no part is."""
    if isinstance(call.body, verbs.Claim):
        return None
    if not isinstance(call.body, Finish | FinishMany):
        return call
    body = call.body.model_copy(update={"claim_next": 0})
    return Call(name=call.name, verb=call.verb, ref=call.ref, job_id=call.job_id, body=body)


def claimed(answer: BaseModel) -> Sequence[ClaimedJob]:
    return answer.jobs if isinstance(answer, answers.Claimed | Ended | EndedMany) else ()


def wanted_jobs(call: Call) -> int:
    if isinstance(call.body, verbs.Claim):
        return call.body.limit
    return call.body.claim_next if isinstance(call.body, Finish | FinishMany) else 0


def is_claim(call: Call) -> bool:
    """Whether a call does nothing but claim."""
    return isinstance(call.body, verbs.Claim)


def wait_s(call: Call) -> float:
    """How many seconds a call may wait for its first job."""
    return call.body.wait if isinstance(call.body, verbs.Claim) else 0.0


def nothing(*, is_drained: bool) -> BaseModel:
    """The answer to a claim for which there was no job."""
    return answers.Claimed(jobs=[], drained=is_drained)


def queues(call: Call) -> Sequence[str] | None:
    """Where a call wants its jobs from; None: the worker's own queues."""
    return call.body.queues if isinstance(call.body, verbs.Claim) else None


def note(leases: Leases, call: Call, answer: BaseModel | None) -> None:
    """Keep `leases` up to date after a call; `answer` None: its lease was lost. An answer about an old lease of a
    job says nothing of the one that the worker got anew."""
    if call.job_id is not None and isinstance(call.body, Leased):
        if answer is None or isinstance(answer, Ended | answers.Released):
            _drop(leases, call.job_id, call.body)
        elif (held := leases.get(call.job_id)) is None or held.fence < call.body.parsed.fence:
            leases[call.job_id] = call.body.parsed
    for named in _left(call.body, answer):
        _drop(leases, named.id, named)
    for job in () if answer is None else claimed(answer):
        leases[job.id] = job.lease


def _drop(leases: Leases, job_id: int, named: Leased) -> None:
    if str(leases.get(job_id)) == named.lease:
        del leases[job_id]


def _left(body: BaseModel, answer: BaseModel | None) -> Sequence[Any]:
    """Those of the jobs that a call names, each with its lease, that left the worker by it."""
    match body, answer:
        case FinishMany(finished=named), EndedMany(finished=entries):
            return [one for one, entry in zip(named, entries, strict=True) if isinstance(entry, EndedOne)]
        case verbs.Heartbeats(jobs=beats), answers.RenewedMany(jobs=renewed):
            return [one for one, entry in zip(beats, renewed, strict=True) if isinstance(entry, answers.LostOne)]
        case verbs.Unclaim(jobs=given), answers.Unclaimed(unclaimed=ids):
            return [one for one in given if one.id in ids]
    return ()
