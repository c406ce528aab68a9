"""What a farm answers, as values. Fields that a newer farm adds are left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Literal, Self, TypedDict

Status = Literal["pending", "in_progress", "success", "failed", "timed_out", "canceled"]
Condition = str | float | list[str | float]  # on a label: equal, one of, or ">=16" and "<=16"
ENDED = frozenset({"success", "failed", "timed_out", "canceled"})
_MOMENTS = frozenset({"created_at", "run_at", "claimed_at", "ended_at", "expires_at"})


class JobOptions(TypedDict, total=False):
    """What a job may be submitted with beside its kind and payload."""

    queue: str | None
    priority: int | None
    run_at: datetime | None
    unique_key: str | None
    group: str | None
    files: Mapping[str, str] | None
    requires: Mapping[str, Condition] | None
    prefers: Mapping[str, Condition] | None
    wait: bool | None


class JobFilters(TypedDict, total=False):
    """Which jobs are listed; several must all fit."""

    status: Status
    kind: str
    queue: str
    owner: str
    group: str
    worker: str
    retry_of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job to submit. `payload` is anything JSON; a `run_at` needs a zone; None is the kind's own or nothing.

    `files`: the ids of uploads, by the names that the worker asks for; 16 at most. `requires` and `prefers`: conditions
    on the labels of its worker, such as `{"vram": ">=16", "region": ["home", "lab"]}`. `wait`: where a budget has no
    room for it now, be due in the budget's next window instead of being refused with `budget_exhausted`.
    """

    kind: str
    payload: Any = None
    queue: str | None = None
    priority: int | None = None
    run_at: datetime | None = None
    unique_key: str | None = None
    group: str | None = None
    files: Mapping[str, str] | None = None
    requires: Mapping[str, Condition] | None = None
    prefers: Mapping[str, Condition] | None = None
    wait: bool | None = None

    def as_json(self) -> dict[str, Any]:
        """The body of a submit."""
        named = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "payload"}
        if self.run_at is not None:
            named["run_at"] = self.run_at.isoformat()
        return {"payload": self.payload, **{key: value for key, value in named.items() if value is not None}}


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A result file: its name and size in bytes."""

    name: str
    size: int

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The file that an answer describes."""
        return cls(**_known(cls, data))


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """An input file that jobs may be given. `expires_at`: when it is deleted unless a job comes to use it."""

    id: str
    name: str
    size: int
    sha256: str
    expires_at: datetime | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The upload that an answer describes."""
        return cls(**_known(cls, data))


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
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

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The attempt that an answer describes."""
        return cls(**_known(cls, data))


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as it was when the farm answered.

    In lists `payload`, `result`, `error`, `files` and `attempts` are empty; `attempts` has the latest first.
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
    retry_of: int | None = None
    created_at: datetime | None = None
    run_at: datetime | None = None
    claimed_at: datetime | None = None
    ended_at: datetime | None = None
    expires_at: datetime | None = None
    requires: Mapping[str, str] = field(default_factory=dict)
    prefers: Mapping[str, str] = field(default_factory=dict)
    payload: Any = None
    result: Any = None
    error: str | None = None
    files: tuple[File, ...] = ()
    attempts: tuple[Attempt, ...] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The job that an answer describes."""
        return cls(**_known(cls, data))

    @property
    def has_ended(self) -> bool:
        """Whether nothing about it changes any more."""
        return self.status in ENDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """An entry of a bulk that made no job: its twin has not ended, or, in a repeat, the job was deleted since."""

    code: str
    message: str
    job: int | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The entry that an answer describes."""
        return cls(code=data["error"], message=data.get("message", ""), job=data.get("job"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Canceled:
    """What a cancel came to: `canceled_before_start`, `canceled_before_retry`, `canceled_while_running` or `too_late`.

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
    """One event of a job: `job` (it changed), `output` (`fence`, `seq`, `text`) or `end` (`status`).

    `id` sent back as `last_event_id` goes on behind it.
    """

    name: str
    id: str
    data: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The text of a piece of output; an empty one of any other event."""
        return str(self.data.get("text", "")) if self.name == "output" else ""


def _known(cls: type[Any], data: Mapping[str, Any]) -> dict[str, Any]:
    names = {one.name for one in fields(cls)}
    return {name: _value(name, value) for name, value in data.items() if name in names}


def _value(name: str, value: Any) -> Any:
    if name in _MOMENTS:
        return None if value is None else datetime.fromisoformat(value)
    if name == "files":
        return tuple(map(File.from_json, value))
    if name == "attempts":
        return tuple(map(Attempt.from_json, value))
    return value
