"""What workers are answered (`jobs.protocol.verbs`)."""

from datetime import datetime
from typing import Any, Self

from django.conf import settings
from pydantic import BaseModel, Field

from jobs import operations
from jobs.domain.states import Status

_DRAINED = "True: this worker is drained, and gets no jobs until that ends. It may go on asking, or end."


def _is_none(value: object) -> bool:
    return value is None


class InputFile(BaseModel):
    """An input file of a job, for its worker to fetch."""

    name: str = Field(description="Ask for it by this name, at `inputs/{name}`.", examples=["audio"])
    size: int = Field(description="Bytes.")
    sha256: str
    type: str = Field(description="As the uploaded file's name promises.", examples=["audio/ogg"])


class ClaimedJob(BaseModel):
    """A job that this worker holds now."""

    id: int
    kind: str
    queue: str
    payload: Any
    attempt: int = Field(description="Number of this attempt, of `max_attempts`.")
    max_attempts: int
    fence: int = Field(
        description="Number of this claim of the job, its fencing token; its output and files are kept under it."
    )
    lease: str = Field(description="The right to speak for the job: send it with every later call.")
    lease_expires_at: datetime = Field(
        description="Unconfirmed, it runs out after one heartbeat interval: the first call that names it confirms it."
    )
    heartbeat_every: float = Field(description="Seconds; later than `lease_expires_at` the job is lost.")
    retry_when_lost: bool = Field(
        description="False: it must not run twice. Begin only once a call that names the lease was answered."
    )
    traceparent: str | None = Field(
        None, description="The trace that the job was submitted in (W3C Trace Context), if in one."
    )
    files: list[InputFile] | None = Field(
        None, description="Its input files; absent where it has none.", exclude_if=_is_none
    )

    has_ceiling: bool = Field(
        False,
        description="Its queue runs only so many jobs at a time, and this is one of them: begin it now, or give it "
        "back (`unclaim`). Absent where there is no ceiling.",
        exclude_if=lambda has_ceiling: not has_ceiling,
    )

    @classmethod
    def of(cls, claimed: operations.Claimed) -> Self:
        """The wire form of what `operations.claim` gave."""
        return cls(
            id=claimed.id, kind=claimed.kind, queue=claimed.queue, payload=claimed.payload, attempt=claimed.attempt,
            max_attempts=claimed.max_attempts, fence=claimed.lease.fence, lease=str(claimed.lease),
            lease_expires_at=claimed.lease_expires_at, heartbeat_every=settings.JOBFARM["HEARTBEAT_S"],
            retry_when_lost=claimed.retry_when_lost, traceparent=claimed.traceparent,
            files=[InputFile(**entry) for entry in claimed.inputs] or None, has_ceiling=claimed.has_ceiling,
        )  # fmt: skip


class Claimed(BaseModel):
    """The jobs that came; none if there was nothing for this worker."""

    jobs: list[ClaimedJob]
    drained: bool = Field(False, description=_DRAINED)


class Renewed(BaseModel):
    """Until when the lease is good now."""

    lease_expires_at: datetime


class RenewedOne(Renewed):
    """Until when the lease of one job is good now."""

    id: int


class Written(BaseModel):
    """The number of the next piece of output."""

    next_seq: int


class Ended(BaseModel):
    """What became of the job, and the jobs that came with the answer."""

    status: Status
    jobs: list[ClaimedJob]
    drained: bool = Field(False, description=_DRAINED)


class EndedOne(BaseModel):
    """What became of one job of a batch."""

    id: int
    status: Status


class LostOne(BaseModel):
    """A job of a batch that was refused: its lease was lost, or its result cannot be stored. Nothing about it changed;
    a refusal's numbers stand beside these."""

    model_config = {"extra": "allow"}

    id: int
    error: str = Field(examples=["lease_lost"])
    message: str
    reason: str | None = Field(
        None, description="Of a lost lease: `canceled`, `ended`, `timed_out`, `taken_over`, `taken_back` or `unknown`."
    )
    job_status: Status | None = Field(None, description="How it had ended.")


class EndedMany(BaseModel):
    """An answer for each job, in order, and the jobs that came with the answer."""

    finished: list[EndedOne | LostOne]
    jobs: list[ClaimedJob]
    drained: bool = Field(False, description=_DRAINED)


class RenewedMany(BaseModel):
    """An answer for each job, in order."""

    jobs: list[RenewedOne | LostOne]


class Released(BaseModel):
    """The job waits again."""

    status: Status = Status.PENDING


class Unclaimed(BaseModel):
    """The jobs that wait again because of this call."""

    unclaimed: list[int]
