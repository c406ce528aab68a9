"""The words of the worker protocol: one call, sent over HTTP or over the WebSocket, and one claimed job."""

import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jobfarm_client.errors import Refused, Unreachable, refusal
from jobfarm_client.wire import dumps

DEFAULT_HEARTBEAT_S = 20.0
SHORTEST_HEARTBEAT_S = 0.05
LONGEST_ANSWER_S = 20.0
SHORTEST_ANSWER_S = 2.0  # a busy farm is slower than its heartbeats are short
SHORTEST_PAUSE_S = 0.05
_ANSWERED_BY = {
    "claim": "jobs", "finish": "jobs", "finish_many": "finished", "heartbeat_many": "jobs", "hello": "worker",
    "output": "next_seq", "release": "status", "submit": "id", "unclaim": "unclaimed",
}  # fmt: skip
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One verb with its fields; `job` is the id that HTTP has in the path."""

    verb: str
    body: Mapping[str, Any] = field(default_factory=dict)
    job: int | None = None

    @property
    def path(self) -> str:
        """Where the verb lives over HTTP, below the farm's address."""
        prefix = "" if self.job is None else f"jobs/{self.job}/"
        return f"/api/v1/worker/{prefix}{self.verb.removesuffix('_many')}"

    @property
    def answered_by(self) -> str:
        """A field that the farm's answer has: an object without it is a gateway's."""
        return _ANSWERED_BY.get(self.verb, "lease_expires_at")

    def message(self, *, ref: int) -> str:
        job = {} if self.job is None else {"job": self.job}
        return dumps({"type": self.verb, "ref": ref, **job, **self.body})


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """A file that a job was given. `type` is the media type that its name promises. One that is a part of the payload
    belongs `at` these places of it."""

    name: str
    size: int
    sha256: str
    type: str
    at: tuple[tuple[str | int, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CameAfter:
    """A job that this one comes after in its flow, as it ended. `is_too_long`: its result did not come along."""

    id: int
    kind: str
    status: str
    name: str = ""
    result: Any = None
    is_too_long: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """What came of a wait: the data of the signal, or `timed_out`. Without a name it was a wait for other jobs."""

    name: str | None
    data: Any = None
    timed_out: bool = False


@dataclass(slots=True, kw_only=True)
class ClaimedJob:
    """A job that the farm gave to this worker, with the lease that every later call must show. Never written to; a
    frozen one takes four times as long to make."""

    id: int
    kind: str
    queue: str
    payload: Any
    attempt: int
    lease: str
    heartbeat_s: float
    fence: int = 0
    max_attempts: int | None = None
    retry_when_lost: bool = True
    traceparent: str | None = None
    files: tuple[InputFile, ...] = ()
    after: tuple[CameAfter, ...] = ()
    checkpoint: Any = None
    children: int = 0
    """How many jobs it had submitted when it kept that."""
    signal: Signal | None = None
    has_ceiling: bool = False
    """Its queue runs only so many jobs at a time: this is one of them, also while it lies ready."""
    is_shared: bool = False
    """Its queue is shared out by the time that jobs run: the farm wants to know how long this one did."""

    def __str__(self) -> str:
        return f"job {self.id} {self.kind}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """What a handler returns instead of a result, so that its job waits without it (`Job.wait_for`)."""

    fields: Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class JobResult:
    """How an attempt ended, as the finish call says it. `wait`: what it waits for, for it is suspended."""

    success: bool
    result: Any = None
    error: str = ""
    retryable: bool = True
    wait: Wait | None = None
    size: int = field(default=0, compare=False)  # bytes of the result or the error
    ran_s: float | None = None  # where the farm wants to know

    @property
    def has_failed(self) -> bool:
        return not self.success and self.wait is None

    def fields(self) -> dict[str, Any]:
        ran = {} if self.ran_s is None else {"ran_s": self.ran_s}
        if self.success:
            return {"outcome": "success", "result": self.result, **ran}
        if self.wait is not None:
            return {"outcome": "suspended", "wait": self.wait.fields, **ran}
        return {"outcome": "failed", "error": self.error, "retryable": self.retryable, **ran}


def storable(text: str) -> str:
    """The text without what PostgreSQL and UTF-8 cannot hold: NUL characters and lone surrogates."""
    return text.replace("\0", REPLACEMENT).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def size_of_json(value: Any) -> int:
    """Bytes of `value` as a result; raises ValueError with a sentence when it cannot be one."""
    try:
        return len(dumps(value).encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"The handler returned something that is not JSON: {error}") from error


def claimed_jobs(answer: Mapping[str, Any]) -> list[ClaimedJob]:
    """The jobs in the answer to a claim or a finish; raises Unreachable when they cannot be read."""
    try:
        return [_claimed(job) for job in answer.get("jobs") or ()]
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise Unreachable(f"The farm sent a job that this worker cannot read: {error!r}") from error


def _claimed(job: Mapping[str, Any]) -> ClaimedJob:
    return ClaimedJob(
        id=int(job["id"]),
        kind=str(job["kind"]),
        queue=str(job.get("queue", "")),
        payload=job.get("payload"),
        attempt=int(job.get("attempt", 1)),
        lease=str(job["lease"]),
        heartbeat_s=_heartbeat_s(job.get("heartbeat_every")),
        fence=int(job.get("fence", 0)),
        max_attempts=None if job.get("max_attempts") is None else int(job["max_attempts"]),
        retry_when_lost=job.get("retry_when_lost") is not False,
        traceparent=None if job.get("traceparent") is None else str(job["traceparent"]),
        files=tuple(map(_input, job.get("files") or ())),
        after=tuple(map(_came_after, job.get("after") or ())),
        checkpoint=job.get("checkpoint"),
        children=int(job.get("children", 0)),
        signal=None if job.get("signal") is None else _signal(job["signal"]),
        has_ceiling=job.get("has_ceiling") is True,
        is_shared=job.get("is_shared") is True,
    )


def _came_after(one: Mapping[str, Any]) -> CameAfter:
    return CameAfter(
        id=int(one["id"]), kind=str(one["kind"]), status=str(one["status"]), name=str(one.get("name", "")),
        result=one.get("result"), is_too_long=one.get("is_too_long") is True,
    )  # fmt: skip


def _signal(one: Mapping[str, Any]) -> Signal:
    return Signal(name=one.get("name"), data=one.get("data"), timed_out=one.get("timed_out") is True)


def _input(file: Mapping[str, Any]) -> InputFile:
    named = {field: str(file[field]) for field in ("name", "sha256", "type")}
    return InputFile(size=int(file["size"]), at=tuple(map(tuple, file.get("at") or ())), **named)


def _heartbeat_s(value: float | None) -> float:
    """Seconds between heartbeats. (The lease's end is in the farm's clock, never compared with ours.)"""
    seconds = DEFAULT_HEARTBEAT_S if value is None else float(value)
    return max(seconds, SHORTEST_HEARTBEAT_S) if math.isfinite(seconds) else DEFAULT_HEARTBEAT_S


# A lease lasts three heartbeat intervals. A connection that swallows everything is given up after half an interval, and
# the pause before the next try is at most a quarter of one: so a worker that holds jobs reaches the farm again within
# one interval, a third of its lease, once the network lets it. (With heartbeats of less than 4 s the shortest patience
# takes longer than that.)


def answer_s(heartbeat_s: float) -> float:
    """Seconds to wait for the answer to a call, from a farm with this heartbeat interval."""
    return min(LONGEST_ANSWER_S, max(SHORTEST_ANSWER_S, heartbeat_s / 2))


def longest_pause_s(heartbeat_s: float) -> float:
    """The longest pause, in seconds, between two tries of a worker that holds such a job."""
    return max(SHORTEST_PAUSE_S, heartbeat_s / 4)


def claim(*, queues: Sequence[str] | None, limit: int) -> Call:
    """Ask for up to `limit` jobs. The request has an id of its own, which it keeps when it is sent again."""
    named = {} if queues is None else {"queues": list(queues)}
    return Call(verb="claim", body={**named, "limit": limit, "request_id": _request_id()})


def waiting(call: Call, *, seconds: float) -> Call:
    """The same claim, to be answered only when there is a job, or after so long."""
    return replace(call, body={**call.body, "wait": seconds})


def finish(finished: Sequence[tuple[ClaimedJob, JobResult]], *, claim_next: int) -> Call:
    """Report how attempts ended, by one call, and claim so many jobs with the answer; its id is kept like that of a
    claim."""
    more = {"request_id": _request_id(), **({"claim_next": claim_next} if claim_next else {})}
    if len(finished) == 1:
        [(claimed, outcome)] = finished
        return Call(verb="finish", job=claimed.id, body={"lease": claimed.lease, **outcome.fields(), **more})
    entries = [{"id": claimed.id, "lease": claimed.lease, **outcome.fields()} for claimed, outcome in finished]
    return Call(verb="finish_many", body={"finished": entries, **more})


def heartbeat(beats: Sequence[tuple[ClaimedJob, Mapping[str, Any]]]) -> Call:
    """Say of these jobs, each with its lease and what there is to report, that they are being worked on."""
    if len(beats) == 1:
        [(claimed, body)] = beats
        return Call(verb="heartbeat", job=claimed.id, body=body)
    return Call(verb="heartbeat_many", body={"jobs": [{"id": claimed.id, **body} for claimed, body in beats]})


def verdicts(entries: Any, count: int) -> list[Refused | None]:
    """What the answer to a call about several jobs says of each: None where the farm did as it was asked."""
    if not isinstance(entries, list) or len(entries) != count:
        return [None] * count
    return [refusal(status=409, data=each) if isinstance(each, dict) and "error" in each else None for each in entries]


def _request_id() -> str:
    return uuid.uuid4().hex
