"""What a worker gets of the jobs that it has claimed: what was stored, as the hooks of their kinds have prepared it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from jobs import kinds
from jobs.domain.hooks import Discard
from jobs.domain.leases import Lease
from jobs.domain.states import AttemptOutcome
from jobs.models import Worker
from jobs.operations import hooks
from jobs.operations.finish import decide, settle
from jobs.queries import moves
from jobs.queries.moves import Settlement

# PostgreSQL writes jsonb without a space around it, so what json.loads looks for is not there: a third of its time.
_read: Final = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # (value, where it ends)


@dataclass(slots=True, kw_only=True)  # frozen, it takes twice as long to make, and a claim makes a hundred
class Claimed:
    """A job as its worker gets it."""

    id: int
    kind: str
    queue: str
    payload: Any
    attempt: int
    max_attempts: int
    retry_when_lost: bool
    lease: Lease
    lease_expires_at: datetime
    traceparent: str | None = None
    inputs: Sequence[Mapping[str, Any]] = ()  # of each input file its name, size, sha256, type and more
    has_ceiling: bool = False  # its queue has one: the job holds a place, whether it runs or lies ready


def to(worker: Worker, rows: Sequence[moves.Row]) -> list[Claimed]:
    """These claimed jobs as their worker gets them, and their apps are notified. One that is missing is not held any
    more.

    In the claim's transaction. Jobs of kinds without hooks cost nothing here.
    """
    hooked = [row for row in rows if row.kind in kinds.HOOKS]
    if hooked:
        hooks.claimed(hooked, worker_name=worker.name)
    return _without_discarded(worker, rows, hooked)


def again(worker: Worker, rows: Sequence[moves.Row]) -> list[Claimed]:
    """The same for jobs whose claim is answered once more; their apps know of the claim already."""
    return _without_discarded(worker, rows, [row for row in rows if row.kind in kinds.HOOKS])


def _without_discarded(worker: Worker, rows: Sequence[moves.Row], hooked: Sequence[moves.Row]) -> list[Claimed]:
    stored = {row.id: _payload(row) for row in rows}
    readable = [row for row in hooked if not isinstance(stored[row.id], hooks.PrepareFailed)]
    answers = {**stored, **hooks.prepare(worker, readable, stored)} if readable else stored
    discarded = {
        job_id: answer for job_id, answer in answers.items() if isinstance(answer, Discard | hooks.PrepareFailed)
    }
    if discarded:
        _end_discarded(worker, [row for row in rows if row.id in discarded], discarded)
    return [_claimed(row, answers[row.id]) for row in rows if row.id not in discarded]


def _payload(row: moves.Row) -> Any:
    """What is stored, if Python can read that: jsonb holds numbers of any length, and SQL puts them there."""
    try:
        return _read(row.payload, 0)[0]
    except ValueError as error:
        return hooks.PrepareFailed(error=f"Its payload cannot be read: {error}", retryable=False)


def _end_discarded(
    worker: Worker, rows: Sequence[moves.Row], answers: Mapping[int, Discard | hooks.PrepareFailed]
) -> None:
    leases = [(row.id, Lease(fence=row.fence, secret=row.lease_secret)) for row in rows]
    locked = moves.lock_held(worker, leases)
    settle([_discarded(row, answers[row.id]) for row in locked], rows=locked)
    for queue in {row.queue for row in rows}:  # its answer is short, and yet there may be more for this worker
        hooks.available(queue)


def _discarded(row: Any, answer: Discard | hooks.PrepareFailed) -> Settlement:
    if isinstance(answer, Discard):
        return decide(row, AttemptOutcome.CANCELED, retryable=False, error=answer.why)
    judged = decide(row, AttemptOutcome.FAILED, retryable=answer.retryable, error=answer.error)
    return replace(judged, blames_worker=False)


def _claimed(row: moves.Row, payload: Any) -> Claimed:
    return Claimed(
        id=row.id, kind=row.kind, queue=row.queue, payload=payload, attempt=row.attempt, max_attempts=row.max_attempts,
        retry_when_lost=row.retry_when_lost, lease=Lease(fence=row.fence, secret=row.lease_secret),
        lease_expires_at=row.lease_expires_at, traceparent=row.traceparent,
        inputs=json.loads(row.inputs) if row.inputs else (), has_ceiling=row.has_ceiling,
    )  # fmt: skip
