"""The payloads that a worker gets of the jobs that it just claimed: as stored, or as the kind's `prepare` makes them.

A job that cannot be prepared is never its neighbours' problem: one that makes no sense any more ends as canceled, one
whose preparation fails has failed this attempt (docs/adr/0026).
"""

import json
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.db import transaction

from jobs import kinds
from jobs.domain import payloads
from jobs.domain.hooks import Discard, Prepare, Prepared
from jobs.domain.leases import Lease
from jobs.domain.states import Outcome
from jobs.models import Worker
from jobs.operations import announcing, ending, hooking
from jobs.queries import moves
from jobs.queries.moves import Settlement
from observing import fields
from postgres import transactions

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    error: str


def dispatched(worker: Worker, rows: Sequence[moves.Row]) -> dict[int, Any]:
    """The payload of each of these claimed jobs by id, and their apps are notified. One without is not held any more.

    In the claim's transaction. Jobs of kinds without hooks cost nothing here.
    """
    stored = {row.id: json.loads(row.payload) for row in rows}
    hooked = [row for row in rows if row.kind in kinds.HOOKS]
    if not hooked:
        return stored
    hooking.claimed(hooked, worker_name=worker.name)
    return _without_discarded(worker, hooked, stored)


def _without_discarded(
    worker: Worker, hooked: Sequence[moves.Row], stored: Mapping[int, Any]
) -> dict[int, Any]:
    answers = {**stored, **_prepared(worker, hooked, stored)}
    discarded = {
        job_id: answer for job_id, answer in answers.items() if isinstance(answer, Discard | _Failure)
    }
    if discarded:
        _end(worker, [row for row in hooked if row.id in discarded], discarded)
    return {job_id: answer for job_id, answer in answers.items() if job_id not in discarded}


def dispatched_again(worker: Worker, rows: Sequence[moves.Row]) -> dict[int, Any]:
    """The same for jobs whose claim is answered once more; their apps know of the claim already."""
    stored = {row.id: json.loads(row.payload) for row in rows}
    return _without_discarded(worker, [row for row in rows if row.kind in kinds.HOOKS], stored)


def _prepared(worker: Worker, rows: Sequence[moves.Row], stored: Mapping[int, Any]) -> dict[int, Any]:
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
            answers |= _call_prepare(prepare, jobs)
    return answers


def _call_prepare(prepare: Prepare, jobs: Sequence[Prepared]) -> dict[int, Any]:
    """One call for all of them; if that fails, one for each, so that one job's fault is not its neighbours'."""
    try:
        return _answers(prepare, jobs)
    except Exception as error:
        if transactions.collided(error):
            raise
        with fields.about(kind=jobs[0].kind, job_id=jobs[0].job_id if len(jobs) == 1 else None):
            log.exception("preparing jobs of the kind %s failed", jobs[0].kind)
        if len(jobs) == 1:
            return {jobs[0].job_id: _Failure(error=f"the farm could not prepare it: {_error_text(error)}")}
    return {job_id: answer for job in jobs for job_id, answer in _call_prepare(prepare, [job]).items()}


def _answers(prepare: Prepare, jobs: Sequence[Prepared]) -> dict[int, Any]:
    with transaction.atomic():
        answers = prepare(jobs)
        mine = {job.job_id: answers[job.job_id] for job in jobs if job.job_id in answers}
        for answer in mine.values():
            if not isinstance(answer, Discard):  # what cannot be sent would cost the worker its whole claim
                payloads.encoded(answer, limit_bytes=settings.JOBFARM["PAYLOAD_BYTES"], subject="payload")
    return mine


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".encode(errors="replace").decode().replace("\x00", "�")


def _end(worker: Worker, rows: Sequence[moves.Row], answers: Mapping[int, Discard | _Failure]) -> None:
    leases = [(row.id, Lease(fence=row.fence, secret=row.lease_secret)) for row in rows]
    locked = moves.lock_held(worker, leases)
    ending.settle([_settlement(row, answers[row.id]) for row in locked], rows=locked)
    for queue in {
        row.queue for row in rows
    }:  # its answer is short, and yet there may be more for this worker
        announcing.available(queue)


def _settlement(row: Any, answer: Discard | _Failure) -> Settlement:
    if isinstance(answer, Discard):
        return ending.judged(row, Outcome.CANCELED, retryable=False, error=answer.why)
    judged = ending.judged(row, Outcome.FAILED, retryable=True, error=answer.error)
    return replace(judged, blames_worker=False)
