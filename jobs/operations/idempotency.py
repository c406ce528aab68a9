"""Calls that are made again since their answer was lost: one key is one request (docs/adr/0049)."""

import hashlib
import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import transaction

from jobs.domain import leases
from jobs.domain.leases import Lease
from jobs.domain.states import AttemptOutcome, Status
from jobs.errors import IdempotencyKeyInUse, IdempotencyKeyReused, InvalidJson, JobsError, LeaseLost, NotUnique
from jobs.models import Worker
from jobs.queries import moves, submits
from jobs.queries.submits import Stored
from postgres import transactions
from ratelimits.errors import RateLimitsError

RETENTION_S = 24 * 3600.0
WAIT_S = 5.0  # a submit takes milliseconds; whoever is stopped in the middle of one must not stop others for long
RETRY_AFTER_S = 1


class Replaced(int):
    """The id of a job that was there, and became what an earlier request asked for."""


# Of each entry: its job as it was stored just now, or the id of one that was stored before; or why it was left out.
Answer = Stored | int | NotUnique
Submit = Callable[[], Sequence[Answer]]
Refused = JobsError | RateLimitsError
# Any constant will do: names of calls must not be those of anything else that is hashed this way.
_CALLS: Final = uuid.UUID("7d1c2bb2-5a55-4be9-8f0c-27f3a1f9b1f4")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeatable:
    """A request with a key of its sender's choice. Keys are their owner's; `fingerprint` is what was asked for."""

    owner_id: int
    key: str
    fingerprint: bytes


def repeatable(owner: User, key: str | None, content: Any) -> Repeatable:
    """A request with a key. `content` is all that it asks for: JSON, times, and objects that are their attributes; it
    is its own key where that is None.

    How it was written, and in which order its names came, makes no other request of it. Raises InvalidJson for what is
    nested deeper than can be written.
    """

    def plain(value: Any) -> Any:
        return value.isoformat() if isinstance(value, datetime) else vars(value)

    try:
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=plain)
    except RecursionError:
        raise InvalidJson(what="body", why="it is nested too deep") from None
    fingerprint = hashlib.sha256(text.encode())
    return Repeatable(owner_id=owner.pk, key=key or fingerprint.hexdigest(), fingerprint=fingerprint.digest())


def once(
    request: Repeatable | None, *, count: Callable[[], object], submit: Submit, wait_s: float = WAIT_S
) -> list[Answer]:
    """Carry out a request that submits jobs; a repeat of one within 24 hours is answered as that was, and does nothing.

    `count` takes from what its sender may submit, `submit` stores the jobs; without a key (None) both are just called.
    What was answered is stored in the transaction of the jobs. A refusal by either is raised, and not kept: the next
    request with the key is tried anew. Raises IdempotencyKeyReused for a key that came with another request, and
    IdempotencyKeyInUse when the first is still being carried out after `wait_s` seconds.
    """
    if request is None:
        count()
        return list(submit())
    outcome = _in_one_transaction(request, count, submit, wait_s)
    if isinstance(outcome, Refused):
        raise outcome  # only now: what was counted stays counted, as it does without a key
    return outcome


def is_known(request: Repeatable | None) -> bool:
    """Whether nothing is to be stored ahead for it: one with its key was carried out before, or it has none."""
    return request is None or submits.is_known(request.owner_id, request.key)


def done_once(request: Repeatable | None, act: Callable[[], Sequence[int]]) -> list[int]:
    """The jobs that `act` names; of a repeat those that it named the first time. Raises as `once`."""
    return [job for job in once(request, count=lambda: None, submit=act) if isinstance(job, int)]


def was_replaced(answer: Answer) -> bool:
    """Whether no job was made for this entry, but one that waited became what it asks for."""
    return answer.is_replaced if isinstance(answer, Stored) else isinstance(answer, Replaced)


def claim_key(worker: Worker, request_id: str | None) -> uuid.UUID | None:
    """What marks the jobs that this call claims, for a call that names itself; None: it cannot be repeated."""
    return None if request_id is None else _key(worker, "claim", request_id)


def finish_key(worker: Worker, request_id: str | None, held: Iterable[tuple[int, Lease]]) -> uuid.UUID:
    """The same for the jobs that come with a finish. Without a name the leases that it hands in are one."""
    named = request_id or " ".join(sorted(f"{job_id}:{lease}" for job_id, lease in held))
    return _key(worker, "finish", named)


def finished_before(worker: Worker, held: Sequence[tuple[int, Lease]]) -> list[Status | LeaseLost]:
    """For each of these leases, none of which holds its job: the answer that its finish got, or why it is lost."""
    return [Status(row.answered) if row.answered else _lost(row, lease) for row, lease in _past(worker, held)]


def was_released(worker: Worker, job_id: int, lease: Lease) -> bool:
    """Whether this lease, which holds nothing, was given back by its worker. Raises LeaseLost if not."""
    [(row, _)] = _past(worker, [(job_id, lease)])
    if row.outcome != AttemptOutcome.RELEASED:
        raise _lost(row, lease)
    return True


def lost(worker: Worker, job_id: int, lease: Lease) -> LeaseLost:
    [(row, _)] = _past(worker, [(job_id, lease)])
    return _lost(row, lease)


@transactions.retried
def _in_one_transaction(
    request: Repeatable, count: Callable[[], object], submit: Submit, wait_s: float
) -> list[Answer] | Refused:
    is_first = submits.begin_request(
        request.owner_id, request.key, request.fingerprint, retention_s=RETENTION_S, wait_s=wait_s
    )
    if is_first is None:
        raise IdempotencyKeyInUse(retry_after=RETRY_AFTER_S)
    if not is_first:
        return _repeated(request)
    count()
    return _carried_out(request, submit)


def _repeated(request: Repeatable) -> list[Answer]:
    known = submits.known_request(request.owner_id, request.key)
    if bytes(known.fingerprint) != request.fingerprint:
        raise IdempotencyKeyReused
    answers: list[Any] = known.job_ids
    for place in known.skipped:
        answers[place] = NotUnique(job=answers[place])
    for place in known.replaced or ():
        answers[place] = Replaced(answers[place])
    return answers


def _carried_out(request: Repeatable, submit: Submit) -> list[Answer] | Refused:
    try:
        with transaction.atomic():
            answers = list(submit())
    except (JobsError, RateLimitsError) as refusal:
        submits.forget_request(request.owner_id, request.key)
        return refusal
    job_ids = [
        answer if isinstance(answer, int) else answer.job if isinstance(answer, NotUnique) else answer.id
        for answer in answers
    ]
    not_unique = [place for place, answer in enumerate(answers) if isinstance(answer, NotUnique)]
    replaced = [place for place, answer in enumerate(answers) if was_replaced(answer)]
    submits.keep_answer(request.owner_id, request.key, job_ids=job_ids, not_unique=not_unique, replaced=replaced)
    return answers


def _key(worker: Worker, call: str, name: str) -> uuid.UUID:
    return uuid.uuid5(_CALLS, f"{worker.pk} {call} {name}")


def _past(worker: Worker, held: Sequence[tuple[int, Lease]]) -> Iterable[tuple[moves.Row, Lease]]:
    return zip(moves.past_leases(worker, held), (lease for _, lease in held), strict=True)


def _lost(row: moves.Row, lease: Lease) -> LeaseLost:
    if not row.in_scope:  # whose job it is, and how it stands, is not for every worker to know
        return LeaseLost()
    numbers: Mapping[str, str] = leases.why_lost(
        lease.fence, fence=row.fence, status=Status(row.status), outcome=row.outcome
    )
    return LeaseLost(**numbers)
