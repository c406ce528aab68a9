"""The lease: the right to speak for a job, as the worker carries it."""

import re
import secrets
from dataclasses import dataclass
from typing import Self
from uuid import UUID

from jobs.domain.states import ENDED, AttemptOutcome, Status
from jobs.errors import LeaseLost

_WIRE = re.compile(r"([1-9][0-9]{0,17})-([0-9a-f]{32})")


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
