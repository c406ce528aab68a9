"""Requests that may be repeated when their answer was lost: one key is one request (docs/adr/0049)."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count as numbers
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from jobs.errors import IdempotencyKeyInUse, IdempotencyKeyReused, InvalidJson, JobsError, NotUnique
from jobs.models import Job
from jobs.queries import idempotency
from postgres import transactions
from ratelimits.operations import RateLimitsError
from scheduling.operations import action

RETENTION_S = 24 * 3600.0
# A key is deleted later than it stops to count, so that none goes between being found and being read.
DELETED_AFTER_S = RETENTION_S + 3600
DELETED_AT_ONCE = 5000
WAIT_S = (
    5.0  # a submit takes milliseconds; whoever is stopped in the middle of one must not stop others for long
)
RETRY_AFTER_S = 1

Answer = int | NotUnique  # of each entry: the id of its job, or why it was left out
Refused = JobsError | RateLimitsError


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeatable:
    """A request with a key of its sender's choice. Keys are their owner's; `fingerprint` is what was asked for."""

    owner_id: int
    key: str
    fingerprint: bytes


def repeatable(owner: User, key: str, content: Any) -> Repeatable:
    """A request with a key. `content` is all that it asks for: JSON, times, and objects that are their attributes.

    How it was written, and in which order its names came, makes no other request of it. Raises InvalidJson for what is
    nested deeper than can be written.
    """
    try:
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=_plain)
    except RecursionError:
        raise InvalidJson(what="body", why="it is nested too deep") from None
    return Repeatable(owner_id=owner.pk, key=key, fingerprint=hashlib.sha256(text.encode()).digest())


def once(
    request: Repeatable | None,
    *,
    count: Callable[[], None],
    submit: Callable[[], Sequence[Job | NotUnique]],
    wait_s: float = WAIT_S,
) -> list[Answer]:
    """Carry out a request that submits jobs; a repeat of one within 24 hours is answered as that was, and does nothing.

    `count` takes from what its sender may submit, `submit` stores the jobs; without a key (None) both are just called.
    What was answered is stored in the transaction of the jobs. A refusal by either is raised, and not kept: the next
    request with the key is tried anew. Raises IdempotencyKeyReused for a key that came with another request, and
    IdempotencyKeyInUse when the first is still being carried out after `wait_s` seconds.
    """
    if request is None:
        count()
        return [_answer(made) for made in submit()]
    outcome = _in_one_transaction(request, count, submit, wait_s)
    if isinstance(outcome, Refused):
        raise outcome  # only now: what was counted stays counted, as it does without a key
    return outcome


@action(idempotent=True, own_writes=True)
def forget_idempotency_keys() -> int:
    """Delete the keys that are no longer kept, in batches; how many."""
    done = 0
    for _ in numbers():
        done += (deleted := idempotency.forget_older(DELETED_AFTER_S, limit=DELETED_AT_ONCE))
        if deleted < DELETED_AT_ONCE:
            break
    return done


@transactions.retried
def _in_one_transaction(
    request: Repeatable,
    count: Callable[[], None],
    submit: Callable[[], Sequence[Job | NotUnique]],
    wait_s: float,
) -> list[Answer] | Refused:
    if not _is_first(request, wait_s):
        return _repeated(request)
    count()
    return _carried_out(request, submit)


def _is_first(request: Repeatable, wait_s: float) -> bool:
    first = idempotency.begin(
        request.owner_id, request.key, request.fingerprint, retention_s=RETENTION_S, wait_s=wait_s
    )
    if first is None:
        raise IdempotencyKeyInUse(retry_after=RETRY_AFTER_S)
    return first


def _repeated(request: Repeatable) -> list[Answer]:
    known = idempotency.known(request.owner_id, request.key)
    if bytes(known.fingerprint) != request.fingerprint:
        raise IdempotencyKeyReused
    answers: list[Any] = known.job_ids
    for place in known.left_out:
        answers[place] = NotUnique(job=answers[place])
    return answers


def _carried_out(
    request: Repeatable, submit: Callable[[], Sequence[Job | NotUnique]]
) -> list[Answer] | Refused:
    try:
        with transaction.atomic():
            answers = [_answer(made) for made in submit()]
    except (JobsError, RateLimitsError) as refusal:
        idempotency.forget(request.owner_id, request.key)
        return refusal
    job_ids = [answer.job if isinstance(answer, NotUnique) else answer for answer in answers]
    not_unique = [place for place, answer in enumerate(answers) if isinstance(answer, NotUnique)]
    idempotency.keep(request.owner_id, request.key, job_ids=job_ids, not_unique=not_unique)
    return answers


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else vars(value)


def _answer(made: Job | NotUnique) -> Answer:
    return made if isinstance(made, NotUnique) else made.pk
