"""A worker's calls and their answers: the same over HTTP and the WebSocket (docs/api.md)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field, Strict

from core import refusal
from core.large_json import Cut
from core.refusal import Refusal
from core.values import Body, Moment, Name, Number, Text, Whole
from jobs import operations
from jobs.domain.flows import AT_ONCE, LONGEST_KEY, LONGEST_NAME, LONGEST_S, MOST_INTO
from jobs.domain.leases import Lease
from jobs.domain.outputs import Piece
from jobs.errors import RowLocked, SomeLocked
from jobs.models import Worker
from jobs.protocol import answers
from jobs.protocol.clients import NewWork
from jobs.protocol.fleet import Hello, hello
from jobs.protocol.jobs import JobId, LeaseText, RequestId
from jobs.queries.reads import Interest

MOST_CLAIMED = 100  # jobs in one answer: payloads are up to a megabyte each
LONGEST_WAIT_S = 60.0

HowMany = Annotated[Whole, Field(ge=0, le=MOST_CLAIMED)]
_REPEATED = (
    "A name of your choice for this call: 1 to 64 printable ASCII characters without spaces. The same call with the "
    "same name again is answered as the first time."
)


class Claim(Body):
    queues: Annotated[list[Name], Field(min_length=1, max_length=100)] | None = Field(
        None, description="Where to look, in this order; the worker's own queues if absent."
    )
    limit: Annotated[Whole, Field(ge=1, le=MOST_CLAIMED)] = Field(1, description="How many jobs at most.")
    wait: Annotated[Number, Field(ge=0, le=LONGEST_WAIT_S)] = Field(
        0, description="Seconds to wait for the first one, over a WebSocket too."
    )
    request_id: RequestId | None = Field(None, description=_REPEATED)


class Leased(Body):
    """Any call about a job that the worker holds."""

    lease: LeaseText

    @cached_property
    def parsed(self) -> Lease:
        """The lease; raises LeaseLost for a text that cannot be one."""
        return Lease.parse(self.lease)


class Heartbeat(Leased):
    progress: Annotated[Number, Field(ge=0, le=1)] | None = None
    detail: Text | None = Field(None, description="What it is doing; cut at 200 characters.", examples=["Painting"])


class Checkpoint(Leased):
    value: Any = Field(
        description="Any JSON up to 64 kB, in place of the last; null: nothing is kept.", examples=[{"pages_done": 40}]
    )
    children: Annotated[Whole, Field(ge=0, le=MOST_INTO)] = Field(
        0, description="How many jobs it had submitted by then; the next claim brings it back."
    )


class Submit(Leased, NewWork):
    """A job that the one which runs submits for itself."""

    position: Annotated[Whole, Field(ge=0, lt=MOST_INTO)] = Field(
        description="Counts from 0, and from `children` of the claim where that brought a checkpoint."
    )
    outlives: Annotated[bool, Strict()] = Field(False, description="True: it goes on when its parent is canceled.")


class WaitsFor(Body):
    """What a job that is suspended waits for."""

    children: Annotated[list[JobId], Field(max_length=MOST_INTO)] = Field(
        [], description="Jobs that it has submitted (`submit`): all of them have to end, however they do."
    )
    signal: Annotated[Text, Field(min_length=1, max_length=LONGEST_NAME)] | None = Field(
        None, description="A signal of this name (`POST /api/v1/jobs/{id}/signals`).", examples=[None]
    )
    signal_key: Annotated[Text, Field(min_length=1, max_length=LONGEST_KEY)] | None = Field(
        None, description="What it is about, for who does not know the job: rules for webhooks.", examples=[None]
    )
    schema_: dict[str, Any] | None = Field(
        None, alias="schema", description="JSON schema of the form by which people send it.", examples=[None]
    )
    timeout: Annotated[Number, Field(gt=0, le=LONGEST_S)] | None = Field(
        None, description="Seconds for which it waits at most for jobs or a signal.", examples=[None]
    )
    until: Moment | None = Field(None, description="Nothing but this moment.", examples=[None])


class NamedHeartbeat(Heartbeat):
    id: JobId


class Heartbeats(Body):
    jobs: Annotated[list[NamedHeartbeat], Field(min_length=1, max_length=1000)]


class Output(Leased):
    seq: Annotated[Whole, Field(ge=0, lt=2**31 - 1)] = Field(description="Counts from 0 in each attempt.")
    text: Text = Field(description="At most a megabyte.", examples=["Once upon a time"])


class Ending(Leased):
    """How an attempt ended."""

    outcome: Literal["success", "failed", "suspended"]
    result: Any = Field(
        None,
        description="Any JSON up to 50 MB (over the socket a megabyte); kept of a success. Over a megabyte it is the "
        "file `whole-result.json`, and the job's `result` has placeholders for what is long of it.",
    )
    error: Annotated[str, Strict()] = Field("", description="What went wrong; cut at 100,000 characters.")
    retryable: Annotated[bool, Strict()] = Field(True, description="False: trying again would not help.")
    wait: WaitsFor | None = Field(None, description="Of one that is suspended.", examples=[None])
    ran_s: Annotated[Number, Field(ge=0, le=LONGEST_S)] | None = Field(
        None, description="Seconds that it ran, of a job with `is_shared`.", examples=[None]
    )


class Finish(Ending):
    """How an attempt ended, and how many jobs to claim with the answer."""

    claim_next: HowMany = 0
    request_id: RequestId | None = Field(None, description=f"{_REPEATED} The lease is a name, too.")


class NamedEnding(Ending):
    id: JobId


class FinishMany(Body):
    """How several attempts ended, and how many jobs to claim with the answer."""

    finished: Annotated[list[NamedEnding], Field(min_length=1, max_length=1000)]
    claim_next: HowMany = 0
    request_id: RequestId | None = Field(None, description=f"{_REPEATED} The leases together are a name, too.")


class Release(Leased):
    """Give a job back."""


class NamedLease(Leased):
    id: JobId


class Unclaim(Body):
    jobs: Annotated[list[NamedLease], Field(min_length=1, max_length=1000)]


@operations.rechecked
def claim(worker: Worker, body: Claim) -> answers.Claimed:
    """Claim once, without waiting. Raises UnknownQueue, QueueNotAllowed."""
    jobs = operations.claim(worker, queues=body.queues, limit=body.limit, request_id=body.request_id)
    return answers.Claimed(jobs=jobs, drained=is_drained(worker))


@operations.rechecked
def heartbeat(worker: Worker, job_id: int, body: Heartbeat) -> answers.Renewed:
    """Say that you are alive, and how far you are.

    Renews the lease; `progress` and `detail` are shown to people and kept until you say something else.
    """
    at = operations.heartbeat(worker, job_id, body.parsed, progress=body.progress, detail=body.detail)
    return answers.Renewed(lease_expires_at=at)


@operations.rechecked
def heartbeat_many(worker: Worker, body: Heartbeats) -> answers.RenewedMany:
    """Say that you are alive, of all jobs that you hold.

    The answer has an entry for each, in order: `lease_expires_at`, or `"error": "lease_lost"` with its `reason`.
    """
    read = [refusal.value_or_refusal(_beat, beat) for beat in body.jobs]
    ends = operations.heartbeats(worker, [beat for beat in read if isinstance(beat, operations.Beat)])
    jobs = [
        _lost(beat.id, end) if isinstance(end, Refusal) else answers.RenewedOne(id=beat.id, lease_expires_at=end)
        for beat, end in zip(body.jobs, refusal.in_place(read, ends), strict=True)
    ]
    return answers.RenewedMany(jobs=jobs)


@operations.rechecked
def checkpoint(worker: Worker, job_id: int, body: Checkpoint) -> answers.Renewed:
    """Keep how far the job is.

    Keeps any JSON up to 64 kB, in place of the last: however this attempt ends (lost, failed, given back), the next
    claim of the job brings it as `checkpoint`, and its worker goes on from there. Null: nothing is kept. Renews the
    lease as well.
    """
    at = operations.checkpoint(worker, job_id, body.parsed, body.value, children=body.children)
    return answers.Renewed(lease_expires_at=at)


@operations.rechecked
def submit(worker: Worker, job_id: int, body: Submit) -> answers.SubmittedChild:
    """Submit a job for the one that you hold.

    The new job is of the same owner, group, token, trace and flow, and has the rights of that owner. `position` counts
    what the job submits: the same position again, by whichever attempt, submits nothing and is answered with the same
    id, or with 409 `child_differs` where kind or payload are others. Renews the lease as well.

    To wait for such jobs without holding a worker, `finish` with the outcome `suspended`.
    """
    new = operations.NewJob(**{name: getattr(body, name) for name in NewWork.model_fields})  # type: ignore[typeddict-item]
    child = operations.submit_child(worker, job_id, body.parsed, new, position=body.position, outlives=body.outlives)
    return answers.SubmittedChild(id=child)


@operations.rechecked
def write_output(worker: Worker, job_id: int, body: Output) -> answers.Written:
    """Append output.

    Appends a piece of text to the job's output. Pieces are numbered from 0 in each attempt. Sending the same
    number twice stores it once, so after a lost answer just send again; a number too far is refused with 409
    `output_gap` and the `next_seq` expected. Renews the lease as well. An attempt, a job, its owner and the farm have
    quotas: what has no room is refused with 413 `quota_reached`, and nothing changes.
    """
    return answers.Written(next_seq=operations.write_output(worker, job_id, body.parsed, seq=body.seq, text=body.text))


@operations.rechecked
def write_outputs(worker: Worker, pieces: Sequence[tuple[int, Output]]) -> list[answers.Written | Refusal]:
    """`write_output` for several jobs, a piece of each, together: what it returns or raises, in order."""
    read = [refusal.value_or_refusal(piece, job_id, body) for job_id, body in pieces]
    numbers = operations.write_outputs(worker, [piece for piece in read if isinstance(piece, Piece)])
    written = (n if isinstance(n, Refusal) else answers.Written(next_seq=n) for n in numbers)
    return refusal.in_place(read, written)


@operations.rechecked
def finish(worker: Worker, job_id: int, body: Finish) -> answers.Ended:
    """Hand in a job, and take the next.

    Ends the attempt. `success` stores `result`. `failed` stores `error`, and the job is retried later, by
    another worker if there is one, until its attempts are used up or `retryable` is false. With `claim_next`
    the next jobs come with the answer. `suspended` ends it as no attempt, with its checkpoint kept: the job is pending,
    and due again once all that it is to `wait` for is there (jobs that it has not submitted: 422 `not_a_child`); its
    next claim brings their results as `after`. The same finish again, since its answer was lost, is answered as the
    first time, with those of the next jobs whose leases still stand and that no call has named.
    """
    finished = [_finished(worker, job_id, body)]
    [status], jobs = operations.finish_and_claim(
        worker, finished, limit=body.claim_next, unless_lost=True, request_id=body.request_id
    )
    return answers.Ended(status=refusal.raised(status), jobs=jobs, drained=is_drained(worker))


@operations.rechecked
def finish_many(worker: Worker, body: FinishMany) -> answers.EndedMany:
    """Hand in several jobs, and take the next.

    Ends several attempts in one transaction. The answer has an entry for each, in order: its new `status`, or `"error":
    "lease_lost"` with its `reason`. May be repeated as `finish` may. A result that cannot be stored is refused alone:
    `"error": "invalid_json"` or `"too_large"` with why, and its lease holds on; so is a wait for jobs that it has not
    submitted (`"not_a_child"`). 409 `some_locked`: another session keeps the row of one of them locked, and nothing was
    handed in; hand them in one by one, and that one again (503) until it is taken.
    """
    read = [refusal.value_or_refusal(_finished, worker, ending.id, ending) for ending in body.finished]
    real = [one for one in read if isinstance(one, operations.Finished)]
    try:
        ended, jobs = operations.finish_and_claim(worker, real, limit=body.claim_next, request_id=body.request_id)
    except RowLocked:
        if len(read) > 1:
            raise SomeLocked from None
        raise
    finished = [
        _lost(ending.id, end) if isinstance(end, Refusal) else answers.EndedOne(id=ending.id, status=end)
        for ending, end in zip(body.finished, refusal.in_place(read, ended), strict=True)
    ]
    return answers.EndedMany(finished=finished, jobs=jobs, drained=is_drained(worker))


def release(worker: Worker, job_id: int, body: Release) -> answers.Released:
    """Give a job back.

    Gives the job back: it waits again at once, and this does not count as an attempt. For a worker that shuts
    down. From the fourth time in a row on the job waits a while.
    """
    operations.release(worker, job_id, body.parsed)
    return answers.Released()


def unclaim(worker: Worker, body: Unclaim) -> answers.Unclaimed:
    """Give back jobs that were not begun.

    Gives back jobs that were not begun: those whose leases no call has named since they came wait again at once, as if
    they had not been claimed. Others are left alone. For a worker that took several at a time; may be sent again.
    """
    leases = [(named.id, refusal.value_or_refusal(Lease.parse, named.lease)) for named in body.jobs]
    real = [(job_id, lease) for job_id, lease in leases if isinstance(lease, Lease)]
    return answers.Unclaimed(unclaimed=operations.withdraw(worker, real))


def is_drained(worker: Worker) -> bool:
    return worker.drained_at is not None


def interest(worker: Worker, queues: Sequence[str] | None) -> Interest:
    """What a worker that polls `queues` waits for. None: its own and those it steals from; `*`: all. A drained one
    waits for no queue's."""
    if is_drained(worker):
        return Interest(queues=(), owner_id=worker.owner_id)
    names = [*worker.queues, *worker.steals] if queues is None else queues
    satisfies = tuple(sorted(worker.satisfies))
    return Interest(queues=tuple(sorted(set(names))), owner_id=worker.owner_id, satisfies=satisfies)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """One verb: how its fields are checked, what is done (the docstring is for callers), whether that looks at the key
    (`operations.rechecked`), and a body as an example."""

    body: type[Body]
    perform: Callable[..., BaseModel]
    recognizes: bool = False
    sample: Mapping[str, Any] = field(default_factory=dict)

    @property
    def about_a_job(self) -> bool:
        return issubclass(self.body, Leased)


_ONE: Final = {"id": "$JOB", "lease": "$LEASE"}
_ENDED: Final = {**_ONE, "outcome": "success"}
VERBS: Mapping[str, Verb] = {
    "claim": Verb(body=Claim, perform=claim, recognizes=True),
    "hello": Verb(body=Hello, perform=hello, sample={"host": "gpu-3", "handlers": ["chat"], "concurrency": 2}),
    "heartbeat": Verb(
        body=Heartbeat, perform=heartbeat, recognizes=True, sample={"progress": 0.4, "detail": "Painting"}
    ),
    "heartbeat_many": Verb(
        body=Heartbeats, perform=heartbeat_many, recognizes=True, sample={"jobs": [{**_ONE, "progress": 0.4}]}
    ),
    "checkpoint": Verb(body=Checkpoint, perform=checkpoint, recognizes=True, sample={"value": {"pages_done": 40}}),
    "submit": Verb(
        body=Submit, perform=submit, recognizes=True, sample={"position": 0, "kind": "chat", "payload": {"part": 1}}
    ),
    "output": Verb(body=Output, perform=write_output, recognizes=True, sample={"seq": 0, "text": "Once upon a time"}),
    "finish": Verb(body=Finish, perform=finish, recognizes=True, sample={"outcome": "success", "result": 42}),
    "finish_many": Verb(
        body=FinishMany, perform=finish_many, recognizes=True, sample={"finished": [_ENDED], "claim_next": 1}
    ),
    "release": Verb(body=Release, perform=release),
    "unclaim": Verb(body=Unclaim, perform=unclaim, sample={"jobs": [_ONE]}),
}


def _beat(named: NamedHeartbeat) -> operations.Beat:
    return operations.Beat(job_id=named.id, lease=named.parsed, progress=named.progress, detail=named.detail)


def piece(job_id: int, body: Output) -> Piece:
    return Piece(job_id=job_id, lease=body.parsed, seq=body.seq, text=body.text)


def _finished(worker: Worker, job_id: int, ending: Ending) -> operations.Finished:
    if ending.outcome == "success" and isinstance(ending.result, Cut) and ending.result.whole is not None:
        operations.keep_result(worker, job_id, ending.parsed, ending.result.whole)
    same = {name: getattr(ending, name) for name in ("outcome", "result", "error", "retryable", "ran_s")}
    wait = AT_ONCE if ending.wait is None else operations.Wait(
        children=ending.wait.children, signal=ending.wait.signal, signal_key=ending.wait.signal_key,
        schema=ending.wait.schema_, timeout_s=ending.wait.timeout, until=ending.wait.until,
    )  # fmt: skip
    finished = operations.Finished(job_id=job_id, lease=ending.parsed, wait=wait, **same)
    _ = finished.encoded  # what cannot be stored is refused alone
    return finished


def _lost(job_id: int, refused: Refusal) -> answers.LostOne:
    return answers.LostOne(id=job_id, error=refused.code, message=refused.message, **refused.numbers)
