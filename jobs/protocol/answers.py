"""What workers are answered (`jobs.protocol.verbs`)."""

from datetime import datetime

from pydantic import BaseModel, Field

from jobs import operations
from jobs.domain.states import Status

_DRAINED = "True: this worker is drained, and gets no jobs until that ends. It may go on asking, or end."


class Claimed(BaseModel):
    """The jobs that came; none if there was nothing for this worker."""

    jobs: list[operations.ClaimedJob]
    drained: bool = Field(False, description=_DRAINED)


class Renewed(BaseModel):
    """Until when the lease is good now."""

    lease_expires_at: datetime


class RenewedOne(Renewed):
    id: int


class SubmittedChild(BaseModel):
    """The job that was submitted, now or by this attempt or an earlier one before."""

    id: int


class Written(BaseModel):
    next_seq: int


class Ended(BaseModel):
    """What became of the job, and the jobs that came with the answer."""

    status: Status
    jobs: list[operations.ClaimedJob]
    drained: bool = Field(False, description=_DRAINED)


class EndedOne(BaseModel):
    id: int
    status: Status


class LostOne(BaseModel):
    """A job of a batch that was refused: its lease was lost, or what it hands in cannot be kept. Nothing about it
    changed; a refusal's numbers stand beside these."""

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
    jobs: list[operations.ClaimedJob]
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
