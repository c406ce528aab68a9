"""What a worker gets of the jobs that it has claimed: what was stored, as the hooks of their kinds have prepared it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Annotated, Any, Final

from django.conf import settings
from pydantic import Field, PlainSerializer

from jobs import kinds
from jobs.domain.hooks import Discard
from jobs.domain.leases import Lease
from jobs.domain.states import AttemptOutcome, Status
from jobs.models import Checkpoint, Suspension, Worker
from jobs.operations import hooks
from jobs.operations.finish import decide, settle
from jobs.queries import moves, waits
from jobs.queries.moves import Settlement

# PostgreSQL writes jsonb without a space around it, so what json.loads looks for is not there: a third of its time.
_read: Final = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # (value, where it ends)
Brought = tuple[Mapping[int, "list[CameAfter]"], Mapping[int, Suspension], Mapping[int, Checkpoint]]


def _if_any(description: str, **more: Any) -> Any:
    """A field that is absent where it has nothing to say: most jobs have none of these."""
    return Field(description=description, exclude_if=lambda value: not value, **more)


@dataclass(slots=True, kw_only=True)
class InputFile:
    """An input file of a job, for its worker to fetch."""

    name: Annotated[str, Field(description="Ask for it by this name, at `inputs/{name}`.", examples=["audio"])]
    size: Annotated[int, Field(description="Bytes.")]
    sha256: str
    type: Annotated[str, Field(description="As the uploaded file's name promises.", examples=["audio/ogg"])]
    at: Annotated[
        list[list[str | int]] | None,
        _if_any(
            "Where it belongs in the payload, of which it is a long part: names and places in lists. It is "
            "JSON, and `payload` has a placeholder there. Those with shorter paths go first. Absent of all others.",
            examples=[None],
        ),
    ] = None


@dataclass(slots=True, kw_only=True)
class CameAfter:
    """A job that a claimed one comes after in its flow, as it ended."""

    id: int
    name: Annotated[str, Field(description="Within the flow; empty where it was given none.")]
    kind: str
    status: Status
    result: Any
    is_too_long: Annotated[
        bool,
        _if_any(
            "Its result is not here, since the results before it and it are longer than the 4 MB "
            "that a claim brings of them, or those of all its jobs than 64 MB. Absent otherwise."
        ),
    ] = False


@dataclass(slots=True, kw_only=True)
class WaitedFor:
    """What came of the wait of a job that was suspended."""

    name: Annotated[str | None, Field(description="Of the signal; null: it waited for jobs that it had submitted.")]
    data: Annotated[Any, Field(description="Of the signal.")]
    timed_out: Annotated[bool, Field(description="Its time ran out before.")]


@dataclass(slots=True, kw_only=True)  # frozen, it takes twice as long to make, and a claim makes a hundred
class ClaimedJob:
    """A job that this worker holds now."""

    id: int
    kind: str
    queue: str
    payload: Any
    attempt: Annotated[int, Field(description="Number of this attempt, of `max_attempts`.")]
    max_attempts: int
    fence: Annotated[
        int,
        Field(
            description="Number of this claim of the job, its fencing token; its output and files are kept under it."
        ),
    ]
    lease: Annotated[
        Lease,
        PlainSerializer(str, return_type=str),
        Field(description="The right to speak for the job: send it with every later call."),
    ]
    lease_expires_at: Annotated[
        datetime,
        Field(
            description="Unconfirmed, it runs out after one heartbeat interval: the first call that names it confirms "
            "it."
        ),
    ]
    heartbeat_every: Annotated[float, Field(description="Seconds; later than `lease_expires_at` the job is lost.")]
    retry_when_lost: Annotated[
        bool,
        Field(description="False: it must not run twice. Begin only once a call that names the lease was answered."),
    ]
    traceparent: Annotated[
        str | None, Field(description="The trace that the job was submitted in (W3C Trace Context), if in one.")
    ] = None
    files: Annotated[list[InputFile] | None, _if_any("Its input files; absent where it has none.")] = None
    after: Annotated[
        list[CameAfter] | None, _if_any("What it comes after in its flow; absent where that is nothing.")
    ] = None
    checkpoint: Annotated[
        Any,
        Field(
            description="What earlier attempts had found out, as the last of them kept it; absent where none did.",
            exclude_if=lambda checkpoint: checkpoint is None,
        ),
    ] = None
    children: Annotated[
        int,
        _if_any("How many jobs it had submitted when it kept that: the next one has this `position`. Absent: none."),
    ] = 0
    signal: Annotated[
        WaitedFor | None,
        _if_any("What came of its last wait for a signal, or that the time of any wait ran out; else absent."),
    ] = None
    has_ceiling: Annotated[
        bool,
        _if_any(
            "What runs of its queue is bounded, or it has a concurrency key: it counts from now on, so "
            "begin it, or give it back (`unclaim`). Absent otherwise."
        ),
    ] = False
    is_shared: Annotated[
        bool,
        _if_any(
            "Its queue is shared out by the time that jobs run, and it may lie ready: say `ran_s` with "
            "its end. Absent otherwise."
        ),
    ] = False


def to(worker: Worker, rows: Sequence[moves.Row]) -> list[ClaimedJob]:
    """These claimed jobs as their worker gets them, and their apps are notified. One that is missing is not held any
    more.

    In the claim's transaction. Jobs of kinds without hooks cost nothing here.
    """
    hooks.claimed(rows, worker_name=worker.name)
    return again(worker, rows)


def again(worker: Worker, rows: Sequence[moves.Row]) -> list[ClaimedJob]:
    """The same for jobs whose claim is answered once more; their apps know of the claim already."""
    (after, waited, kept), unreadable = _brought(rows)
    stored: dict[int, Any] = {**{row.id: _payload(row) for row in rows}, **unreadable}
    hooked = [row for row in rows if row.kind in kinds.HOOKS]
    readable = [row for row in hooked if not isinstance(stored[row.id], hooks.PrepareFailed)]
    answers = {**stored, **hooks.prepare(worker, readable, stored)} if readable else stored
    discarded = {
        job_id: answer for job_id, answer in answers.items() if isinstance(answer, Discard | hooks.PrepareFailed)
    }
    if discarded:
        _end_discarded(worker, [row for row in rows if row.id in discarded], discarded)
    taken = [row for row in rows if row.id not in discarded]
    jobs = [_claimed(row, answers[row.id], after.get(row.id), kept.get(row.id)) for row in taken]
    for job in jobs:
        if (suspended := waited.get(job.id)) is not None and (suspended.signal or suspended.timed_out):
            data = suspended.taken.data if suspended.taken else None
            job.signal = WaitedFor(name=suspended.signal or None, data=data, timed_out=suspended.timed_out)
    return jobs


def _brought(rows: Sequence[moves.Row]) -> tuple[Brought, dict[int, hooks.PrepareFailed]]:
    """What these jobs came after, waited for and kept; and of which of them that cannot be read."""
    steps: dict[int, list[Mapping[str, Any]]] = {}
    for step in chain.from_iterable(row.after or () for row in rows):  # those of all are in one row
        steps.setdefault(step["job_id"], []).append(step)
    try:
        return _read_of(rows, steps), {}
    except ValueError:
        failed = {row.id: why for row in rows if (why := _unreadable(row, steps)) is not None}
        return _read_of([row for row in rows if row.id not in failed], steps), failed


def _read_of(rows: Sequence[moves.Row], steps: Mapping[int, Sequence[Mapping[str, Any]]]) -> Brought:
    return (
        {row.id: [_came_after(step) for step in steps[row.id]] for row in rows if row.id in steps},
        waits.of([row.id for row in rows if row.fence > 1]),
        moves.checkpoints([row.id for row in rows if row.has_checkpoint]),
    )


def _unreadable(row: moves.Row, steps: Mapping[int, Sequence[Mapping[str, Any]]]) -> hooks.PrepareFailed | None:
    try:
        _read_of([row], steps)
    except ValueError as error:
        return hooks.PrepareFailed(error=f"What came for it cannot be read: {error}", retryable=False)
    return None


def _came_after(step: Mapping[str, Any]) -> CameAfter:
    result = None if step["result"] is None else json.loads(step["result"])
    return CameAfter(
        id=step["id"], name=step["name"], kind=step["kind"], status=Status(step["status"]), result=result,
        is_too_long=step["has_result"] and step["result"] is None,
    )  # fmt: skip


def _payload(row: moves.Row) -> Any:
    """What is stored, if Python can read that: jsonb holds numbers of any length, and SQL puts them there."""
    if row.payload is None:
        return hooks.PrepareFailed(error="Its record is gone: somebody deleted it by hand.", retryable=False)
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
    hooks.available(*{row.queue for row in rows})  # its answer is short, and yet there may be more for this worker


def _discarded(row: Any, answer: Discard | hooks.PrepareFailed) -> Settlement:
    if isinstance(answer, Discard):
        return decide(row, AttemptOutcome.CANCELED, retryable=False, error=answer.why)
    judged = decide(row, AttemptOutcome.FAILED, retryable=answer.retryable, error=answer.error)
    return replace(judged, blames_worker=False)


def _claimed(row: moves.Row, payload: Any, after: list[CameAfter] | None, kept: Checkpoint | None) -> ClaimedJob:
    return ClaimedJob(
        id=row.id, kind=row.kind, queue=row.queue, payload=payload, attempt=row.attempt, max_attempts=row.max_attempts,
        fence=row.fence, lease=Lease(fence=row.fence, secret=row.lease_secret), lease_expires_at=row.lease_expires_at,
        heartbeat_every=settings.JOBFARM["HEARTBEAT_S"], retry_when_lost=row.retry_when_lost,
        traceparent=row.traceparent, files=_files(row.inputs) if row.inputs else None, has_ceiling=row.has_ceiling,
        is_shared=row.is_counted and not row.has_ceiling, after=after, checkpoint=kept and kept.value,
        children=kept.children if kept else 0,
    )  # fmt: skip


def _files(inputs: str) -> list[InputFile]:
    """What a worker may know of them: not the ids of their uploads."""
    return [InputFile(**{name: one.get(name) for name in InputFile.__annotations__}) for one in json.loads(inputs)]
