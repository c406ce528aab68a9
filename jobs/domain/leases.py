"""The lease: the right to speak for a job, as the worker carries it; and what becomes of a job when an attempt ends."""

import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Self
from uuid import UUID

from jobs.domain.states import ENDED, AttemptOutcome, Status
from jobs.errors import LeaseLost

_WIRE = re.compile(r"([1-9][0-9]{0,17})-([0-9a-f]{32})")
FREE_RELEASES = 3  # in a row: a worker that shuts down gives a job back at once, and so may the next two


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Claim number and secret. The number only ever grows, so an old lease can never fit again."""

    fence: int
    secret: UUID

    def __str__(self) -> str:
        return f"{self.fence}-{self.secret.hex}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The lease that `str()` wrote. Raises LeaseLost for any other text: what cannot be a lease holds nothing."""
        match = _WIRE.fullmatch(text)
        if match is None:
            raise LeaseLost
        return cls(fence=int(match[1]), secret=UUID(match[2]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A heartbeat: this lease's holder is at work, so far and at this, where that is given."""

    job_id: int
    lease: Lease
    progress: float | None = None
    detail: str | None = None

    @property
    def says_something(self) -> bool:
        return self.progress is not None or self.detail is not None


def new_secrets(count: int) -> list[str]:
    """So many secrets of leases to come, each 128 random bits as 32 hexadecimal digits."""
    digits = secrets.token_hex(16 * count)
    return [digits[begin : begin + 32] for begin in range(0, 32 * count, 32)]


def why_lost(lease_no: int, *, fence: int, status: Status, outcome: AttemptOutcome | str | None) -> dict[str, str]:
    """Why the lease of claim `lease_no` does not hold a job: what `LeaseLost` says.

    `fence` and `status` are the job's own, `outcome` how the history says that the lease's attempt ended.
    """
    if lease_no > fence or (lease_no == fence and status is Status.IN_PROGRESS):
        return {"reason": "unknown"}
    if outcome == AttemptOutcome.CANCELED or status is Status.CANCELED:
        return {"reason": "canceled"}
    if status in ENDED:
        return {"reason": "ended", "job_status": status.value}
    if outcome == AttemptOutcome.TIMED_OUT:
        return {"reason": "timed_out"}
    return {"reason": "taken_over" if status is Status.IN_PROGRESS else "taken_back"}


class Judgement(NamedTuple):
    """What follows: the job's next status, its failures so far, for PENDING the seconds until it is due, how often in a
    row it was released or no call named its lease, and as what the attempt counts."""

    status: Status
    failures: int
    outcome: AttemptOutcome
    delay_s: float = 0.0
    releases: int = 0
    unconfirmed: int = 0


def judge(
    outcome: AttemptOutcome,
    *,
    failures: int,
    max_attempts: int,
    retryable: bool,
    delay_s: Callable[[int], float],
    releases: int,
    unconfirmed: int,
    most: int,
) -> Judgement:
    """Decide whether a job is retried (promises 5 and 6 of docs/promises.md).

    `failures` counts the ones before this attempt; after so many the backoff is `delay_s`. `retryable` is the worker's
    word for a failure, the kind's `retry_when_lost` for a lost attempt and its `retry_on_timeout` for a run that took
    too long. A lost attempt has cost its lease's time already: the job is due at once. A release is no failure: the job
    is due at once too, unless it was released FREE_RELEASES times in a row before (`releases`), then with the backoff
    of failures. A lease that no call named costs nothing, since its answer may have been lost on the way. The next in a
    row (`unconfirmed` were before) have a delay, for the job may end its workers before they say a word; from the
    `most`-th on each is a lost attempt.
    """
    same = Judgement(status=Status.PENDING, failures=failures, outcome=outcome)
    match outcome:
        case AttemptOutcome.RELEASED:
            surplus = releases + 1 - FREE_RELEASES
            return same._replace(delay_s=delay_s(surplus) if surplus > 0 else 0.0, releases=min(releases + 1, 1000))
        case AttemptOutcome.SUSPENDED:
            return same
        case AttemptOutcome.CANCELED:
            return same._replace(status=Status.CANCELED)
        case AttemptOutcome.UNCONFIRMED:
            count = min(unconfirmed + 1, 1000)
            lost = _failed(AttemptOutcome.LOST, failures + 1, max_attempts, retryable=retryable)
            judged = lost if count >= most else same._replace(releases=releases)
            return judged._replace(delay_s=delay_s(count - 1) if count > 1 else 0.0, unconfirmed=count)
    failed = _failed(outcome, failures + 1, max_attempts, retryable=retryable)
    waits = failed.status is Status.PENDING and outcome is not AttemptOutcome.LOST
    return failed._replace(delay_s=delay_s(failures + 1)) if waits else failed


def _failed(outcome: AttemptOutcome, failures: int, max_attempts: int, *, retryable: bool) -> Judgement:
    if retryable and failures < max_attempts:
        return Judgement(status=Status.PENDING, failures=failures, outcome=outcome)
    end = Status.FAILED if outcome is AttemptOutcome.FAILED else Status.TIMED_OUT
    return Judgement(status=end, failures=failures, outcome=outcome)
