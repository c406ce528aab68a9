"""What a farm answers, as values. Fields that a newer farm adds are left out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Literal, Required, Self, TypedDict

Status = Literal["pending", "in_progress", "success", "failed", "timed_out", "canceled"]
Condition = str | float | list[str | float]  # on a label: equal, one of, or ">=16" and "<=16"
ENDED = frozenset({"success", "failed", "timed_out", "canceled"})
OnConflict = Literal["refuse", "replace", "after"]
_MOMENTS = frozenset({"created_at", "replaced_at", "run_at", "claimed_at", "began_at", "ended_at", "expires_at",
                      "content_deleted_at"})  # fmt: skip


class JobOptions(TypedDict, total=False):
    """What a job may be submitted with beside its kind and payload."""

    queue: str | None
    priority: int | None
    run_at: datetime | None
    unique_key: str | None
    on_conflict: OnConflict | None
    debounce: Mapping[str, float] | None
    concurrency_key: str | None
    group: str | None
    files: Mapping[str, str] | None
    requires: Mapping[str, Condition] | None
    prefers: Mapping[str, Condition] | None
    tags: Sequence[str] | None
    name: str | None
    after: Sequence[int | str] | None
    when: Literal["success", "ended"] | None
    wait: bool | None


class JobFilters(TypedDict, total=False):
    """Which jobs are listed; several must all fit, None means any."""

    status: Status | None
    kind: str | None
    queue: str | None
    owner: str | None
    group: str | None
    worker: str | None
    tag: str | None
    flow: int | None
    retry_of: int | None


class EventFilters(TypedDict, total=False):
    """Which jobs are followed; several must all fit. `tag`: several with commas between; `owner`: `me` is you."""

    tag: str
    kind: str
    owner: str
    flow: int


class BulkFilters(TypedDict, total=False):
    """Which jobs a bulk action means; several must all fit, none means all that you may act on."""

    status: Status
    kind: str
    queue: str
    owner: str
    group: str
    worker: str
    tag: str
    due: Literal["now", "later"]
    age: Literal["hour", "day", "week", "month"]
    since: datetime
    until: datetime
    text: str
    ids: Sequence[int]


class NewJob(JobOptions, total=False):
    """A job to submit. `payload` is anything JSON; a `run_at` needs a zone; None is the kind's own or nothing.

    `files`: the ids of uploads, by the names that the worker asks for; 16 at most. `requires` and `prefers`:
    conditions on the labels of its worker, such as `{"vram": ">=16", "region": ["home", "lab"]}`. `tags`: up to 10
    words that it is found by. `after`: jobs that it starts after, by id, or by `name` of others of the same call;
    they have to end in success, or with `when="ended"` just to end. Of the jobs with one `concurrency_key` so many
    run at a time as their kind, or queue, says. `wait`: where a budget has no room for it now, be due in the budget's
    next window instead of being refused with `budget_exhausted`. `on_conflict`: what becomes of it while another job
    has its `unique_key`: it is refused, replaces one that nobody has begun, or runs after it; `debounce`, such as
    `{"quiet": 10, "at_most": 120}`: after it, and once no further one came for 10 s, at the latest 120 s after the
    first.
    """

    kind: Required[str]
    payload: Any


def as_json(new: NewJob) -> dict[str, Any]:
    """The job as the farm takes it."""
    named = {name: in_json(value) for name, value in new.items() if name != "payload" and value is not None}
    return {"payload": new.get("payload"), **named}


def in_json(value: Any) -> Any:
    """A moment as the farm takes it; all else as it is."""
    return value.isoformat() if isinstance(value, datetime) else value


class _Described:
    __slots__ = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The one that an answer describes."""
        names = {one.name for one in fields(cls)}  # type: ignore[arg-type]  # of the dataclass that this is a base of
        return cls(**{name: _value(name, value) for name, value in data.items() if name in names})


@dataclass(frozen=True, slots=True, kw_only=True)
class File(_Described):
    """A result file: its name and size in bytes."""

    name: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload(_Described):
    """An input file that jobs may be given. `expires_at`: when it is deleted unless a job comes to use it."""

    id: str
    name: str
    size: int
    sha256: str
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkAction(_Described):
    """How a bulk action stands: `phase` is counting, ready, running, done or stopped.

    Of the jobs that it `matched`, it has come to `handled` and has `changed` so many; `results` says in words how many
    came to what.
    """

    id: int
    action: str
    phase: str
    value: str = ""
    filters: Mapping[str, str] = field(default_factory=dict)
    matched: int = 0
    handled: int = 0
    changed: int = 0
    results: Mapping[str, int] = field(default_factory=dict)
    by: str = ""
    why: str = ""
    undoes: int | None = None
    undone_by: int | None = None
    created_at: datetime | None = None
    began_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def is_over(self) -> bool:
        return self.phase in {"done", "stopped"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt(_Described):
    """One attempt: what became of it. `outcome` is None while it runs; `attempt` None for one that was given back."""

    fence: int
    attempt: int | None = None
    outcome: str | None = None
    worker: str | None = None
    claimed_at: datetime | None = None
    ended_at: datetime | None = None
    error: str | None = None
    has_output: bool = False
    files: tuple[File, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(_Described):
    """A job as it was when the farm answered.

    In lists `payload`, `checkpoint`, `result`, `error`, `files` and `attempts` are empty; `attempts` has the latest
    first.
    """

    id: int
    kind: str
    queue: str
    status: Status
    priority: int = 0
    attempt: int = 0
    fence: int = 0
    failures: int = 0
    max_attempts: int = 1
    progress: float | None = None
    detail: str | None = None
    worker: str | None = None
    owner: str | None = None
    group: str | None = None
    unique_key: str | None = None
    concurrency_key: str | None = None
    tags: tuple[str, ...] = ()
    flow: int | None = None
    name: str | None = None
    after: tuple[int, ...] = ()
    canceled_for: int | None = None
    retry_of: int | None = None
    waits_for: int | None = None
    created_at: datetime | None = None
    replaced_at: datetime | None = None
    run_at: datetime | None = None
    claimed_at: datetime | None = None
    ended_at: datetime | None = None
    expires_at: datetime | None = None
    requires: Mapping[str, str] = field(default_factory=dict)
    prefers: Mapping[str, str] = field(default_factory=dict)
    keep_content: bool = True
    content_deleted_at: datetime | None = None
    payload: Any = None
    checkpoint: Any = None
    result: Any = None
    error: str | None = None
    files: tuple[File, ...] = ()
    attempts: tuple[Attempt, ...] = ()

    @property
    def has_ended(self) -> bool:
        return self.status in ENDED


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStep(_Described):
    """One place of a flow, with the job that has it now; `depth`: how many jobs come one after another before it."""

    id: int
    name: str
    kind: str
    status: Status
    after: tuple[int, ...] = ()
    depth: int = 0
    progress: float | None = None
    canceled_for: int | None = None
    retry_of: int | None = None
    claimed_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow(_Described):
    """Jobs that are connected; `counts`: how many of their places stand how; `usage`: the `attempts`, `seconds`,
    `tokens_in`, `tokens_out` and `cost` of what has ended, if anything has."""

    id: int
    counts: Mapping[str, int]
    usage: Mapping[str, Any] | None
    jobs: tuple[FlowStep, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """An entry of a bulk that made no job: its twin has not ended, or, in a repeat, the job was deleted since."""

    code: str
    message: str
    job: int | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(code=data["error"], message=data.get("message", ""), job=data.get("job"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Canceled:
    """What a cancel came to: `canceled_before_start`, `canceled_before_retry`, `canceled_while_suspended`,
    `canceled_while_running` or `too_late`.

    `status` is the job's after it; for `too_late`, how it had ended. A cancel that was repeated because its answer
    was lost comes too late for itself: the status is then `canceled` all the same.
    """

    verdict: str
    status: Status

    @property
    def is_canceled(self) -> bool:
        """Whether the job is canceled, by this call or before it."""
        return self.status == "canceled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a job does not run: a sentence for people, and under `details` its numbers and remedies."""

    code: str
    sentence: str
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event: `job` (it is new, or changed), `output` (`fence`, `seq`, `text`), `end` (`status`) or, where all jobs
    that match are followed, `reset` (more was missed than is sent again: list them anew).

    `id` sent back as `last_event_id` goes on behind it.
    """

    name: str
    id: str
    data: Mapping[str, Any]

    @property
    def job(self) -> Job | None:
        """The job as it stood, of a `job` event."""
        return Job.from_json(self.data) if self.name == "job" else None

    @property
    def text(self) -> str:
        """The text of a piece of output; an empty one of any other event."""
        return str(self.data.get("text", "")) if self.name == "output" else ""


def _value(name: str, value: Any) -> Any:
    if name in _MOMENTS:
        return None if value is None else datetime.fromisoformat(value)
    kinds: Mapping[str, type[_Described]] = {"files": File, "attempts": Attempt, "jobs": FlowStep}
    if name in kinds:
        return tuple(map(kinds[name].from_json, value))
    return tuple(value) if name == "tags" else value
