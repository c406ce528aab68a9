"""What other apps may have called about jobs, in the transactions that change them.

An app that declares a kind: with jobs that are being claimed, and with each change of status (docs/adr/0026). The app
that meters jobs: with those that come, and with attempts that end (docs/adr/0090). Jobs know nothing of what is
counted: its answers say when new jobs may start. `jobs.operations.hooks` and `jobs.operations.events` make the calls.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Protocol

from jobs.domain.records import JobRecord
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


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    """A confirmed claim of a job that ended. `fence` is its number, `result` what `worker` handed in with a success.

    `is_over`: the job has ended with it, and so once. `is_metered`: the job was admitted by the meter.
    """

    job_id: int
    fence: int
    kind: str
    is_over: bool
    is_metered: bool
    result: Any = None
    worker: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Why a job may not start before `until`: "the budget of 1,000 tokens a day of ada"."""

    cause: str
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What jobs used in all their ended attempts. `model` is empty where their kinds report no tokens; `is_estimated`:
    an attempt did not say what it used; `cost_in_words` has the currency, and is empty where it is nothing."""

    attempts: int
    seconds: float
    model: str
    tokens_in: int
    tokens_out: int
    cost: Decimal
    cost_in_words: str
    is_estimated: bool

    @property
    def sentence(self) -> str:
        """For people: "3.2 s in 2 attempts; 120 tokens in, 45 out; 0.01 USD"."""
        tries = "1 attempt" if self.attempts == 1 else f"{self.attempts:,} attempts"
        parts = [f"{self.seconds:,.1f} s in {tries}"]
        if self.model:
            estimated = " (estimated from what was written)" if self.is_estimated else ""
            parts.append(f"{self.tokens_in:,} tokens in, {self.tokens_out:,} out{estimated}")
        return "; ".join([*parts, *([self.cost_in_words] if self.cost_in_words else [])])


class Admission(Protocol):
    """What a meter decided about new jobs, each in its place: not before when (None: as it asks), and whether the meter
    is to be called when it ends."""

    @property
    def run_at(self) -> Sequence[datetime | None]:
        """Not before these moments."""

    @property
    def is_metered(self) -> Sequence[bool]:
        """Which of them the meter wants to hear of."""

    def keep(self, job_ids: Sequence[int | None]) -> None:
        """They are stored under these ids; None is one that was left out."""


class Meter(Protocol):
    """What an app does about jobs, in the transactions that change them. Only `admit` may refuse."""

    def concerns(self, new: Sequence[JobRecord]) -> bool:
        """Whether `admit` has anything to decide about these. Asked of every submit: it is to be cheap."""

    def admit(self, new: Sequence[JobRecord]) -> Admission:
        """Decide about new jobs before they are stored. `may_wait`: where one may not start when it would, it is to be
        due later instead of being refused. Raises what the submit is refused with."""

    def attempts_ended(self, ends: Sequence[AttemptEnd]) -> None:
        """These attempts ended; of jobs that were admitted, and of kinds that are always metered."""

    def ended_waiting(self, job_ids: Sequence[int]) -> None:
        """These admitted jobs ended while they waited: canceled, or expired."""

    def hold(self, job_id: int) -> Hold | None:
        """Why this admitted job waits, if it does so because of the meter."""

    def used(self, job_ids: Sequence[int]) -> Used | None:
        """What these jobs used together; None while none of their attempts has ended."""
