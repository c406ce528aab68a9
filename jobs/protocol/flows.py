"""A flow as JSON."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Self

from pydantic import BaseModel, Field

from core.values import Body, Name
from jobs.domain.states import Status
from jobs.protocol.jobs import JobId
from jobs.queries.flows import Seen
from postgres.statements import Row

MOST_STEPS: Final = 2_000  # in one answer


class Step(BaseModel):
    """One place of a flow, with the job that has it now."""

    id: int
    name: str = Field(description="Empty where it was given none.")
    kind: str
    status: Status
    after: list[int] = Field(description="The jobs that it comes after.")
    depth: int = Field(description="How many jobs come one after another before it.")
    progress: float | None
    canceled_for: int | None
    retry_of: int | None
    claimed_at: datetime | None
    ended_at: datetime | None

    @classmethod
    def of(cls, place: Row, seen: Seen) -> Self:
        return cls(
            id=place.id, name=place.name, kind=place.kind, status=Status(place.status), after=[*seen.after[place.id]],
            depth=seen.depths[place.id], progress=place.progress,
            canceled_for=place.canceled_for_id, retry_of=place.retry_of_id,
            claimed_at=place.claimed_at, ended_at=place.ended_at,
        )  # fmt: skip


class FlowUsage(BaseModel):
    """What the ended attempts of a flow's jobs used together, those of jobs that were tried again among them."""

    attempts: int
    seconds: float
    tokens_in: int
    tokens_out: int
    cost: float
    is_estimated: bool = Field(description="Whether the tokens of an attempt are estimated from what it wrote.")


class Flow(BaseModel):
    id: int
    created_at: datetime
    counts: Mapping[str, int] = Field(
        description="How many places stand so, of those that you may see.", examples=[{"success": 9_412, "failed": 3}]
    )
    usage: FlowUsage | None = Field(description="Null while no attempt has ended, and where nothing is metered.")
    jobs: list[Step] = Field(description=f"By depth, {MOST_STEPS:,} at most.")


class CanceledFlow(BaseModel):
    canceled: int = Field(description="How many jobs had not ended.")


class NewFlow(Body):
    template: Name = Field(examples=["translate"], description="The name of a flow template.")
    values: dict[Name, Any] = Field(
        default_factory=dict, description="By its placeholders; what is not named has its default.",
        examples=[{"document": "https://example.com/a.txt"}],
    )  # fmt: skip


class RetryFlow(Body):
    from_: JobId | None = Field(
        None, alias="from", description="This ended job and all that came after it; if absent, what failed."
    )


class RetriedFlow(BaseModel):
    jobs: list[int]
