"""What an app that declares a kind may have called: with jobs that are being claimed, and with each change of status.

The calls themselves, and what becomes of a call that fails, are in `jobs.operations.hooks` (docs/adr/0026).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobs.domain.states import AttemptOutcome, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A job that was claimed just now, before its worker gets it. `payload` is what was stored at its submission."""

    job_id: int
    kind: str
    attempt: int
    payload: Any
    worker_id: int
    worker_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Discard:
    """Instead of a payload: nobody needs this job any more. It ends as canceled, and `why` is kept of it."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One change of one job's status, as a row of `jobs.domain.states.MOVES`.

    `attempt` is the claim number, 0 for a job that no worker ever had. `outcome` says how an attempt ended without
    success, `error` what is known about it, `run_at` when a job that went back to pending may be retried (of a new
    one: only if it waits for tokens of its limit).
    `result` is what the worker handed in with a success. `from_` None with `retry_of`: somebody tried that ended job
    again, and this is the new one (of its own submissions an app gets none, it knows them). `from_` None without: no
    move just now, this is how the job stands (`jobs.operations.resync`).
    """

    job_id: int
    kind: str
    attempt: int
    from_: Status | None
    to: Status
    worker_name: str = ""
    outcome: AttemptOutcome | None = None
    result: Any = None
    error: str = ""
    run_at: datetime | None = None
    retry_of: int | None = None


# For each id the payload to hand out, or Discard. Jobs it does not name go out with what was stored.
Prepare = Callable[[Sequence[Prepared]], Mapping[int, Any]]
OnTransition = Callable[[Sequence[Move]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """The functions of one kind; both run inside the transaction that changes its jobs."""

    prepare: Prepare | None = None
    on_transition: OnTransition | None = None

    def __bool__(self) -> bool:
        return self.prepare is not None or self.on_transition is not None
