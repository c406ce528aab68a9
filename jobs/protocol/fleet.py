"""What is answered about workers."""

from datetime import datetime
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field

from core.values import Body, Text
from jobs.domain.labels import MOST_LABELS
from jobs.domain.workers import Presence
from jobs.queries.fleet import WorkerRow


class ReportedGpu(BaseModel):
    """A graphics processor of a worker."""

    name: str
    memory_bytes: int | None = None


class About(BaseModel):
    """What a worker reported about itself; nothing of it is checked."""

    model_config = ConfigDict(from_attributes=True)

    version: str
    host: str
    platform: str
    handlers: list[str]
    concurrency: int | None
    cpus: int | None
    memory_bytes: int | None
    gpus: list[ReportedGpu]
    models: list[str] = Field(description="The models that it serves, by their names in OpenAI's API.")
    loaded: list[str] = Field(description="Those of them that are in memory.")
    labels: dict[str, str] = Field(description="The labels that it announces.")
    reported_at: datetime


class Stuck(BaseModel):
    """A slot of a worker whose attempt ended and whose handler runs on."""

    model_config = ConfigDict(from_attributes=True)

    job: int
    outcome: str = Field(description="How the attempt ended.", examples=["timed_out"])
    since: datetime


class FleetWorker(BaseModel):
    """A worker, and what it does."""

    id: int
    name: str
    owner: str | None = Field(description="Null: it serves everybody.")
    queues: list[str]
    steals: list[str]
    presence: Presence
    connected_at: datetime | None = Field(description="Since when it is there, or was when it was seen last.")
    last_seen_at: datetime | None
    drained_at: datetime | None = Field(description="Since when it is given no jobs; null: it is.")
    drained_by: str | None
    revoked_at: datetime | None
    jobs: list[int] = Field(description="What it runs.")
    stuck: list[Stuck] = Field(description="Its slots that take no job: handlers run on that could not be stopped.")
    labels: dict[str, str] = Field(description="Those that count: what staff set, and else what it announces.")
    labels_by_staff: dict[str, str] = Field(description="An empty value takes a label away.")
    about: About | None = Field(description="What it reported about itself; null: nothing.")

    @classmethod
    def of(cls, row: WorkerRow) -> Self:
        """The wire form of a row of the fleet."""
        worker = row.worker
        return cls(
            id=worker.pk, name=worker.name, owner=worker.owner.get_username() if worker.owner else None,
            queues=worker.queues, steals=worker.steals, presence=row.presence, connected_at=worker.connected_at,
            last_seen_at=worker.last_seen_at, drained_at=worker.drained_at,
            drained_by=worker.drained_by.get_username() if worker.drained_by else None, revoked_at=worker.revoked_at,
            jobs=[job.pk for job in row.jobs], stuck=[Stuck.model_validate(slot) for slot in row.stuck],
            labels=row.labels, labels_by_staff=worker.labels,
            about=About.model_validate(row.facts) if row.facts else None,
        )  # fmt: skip


class Labels(Body):
    """Labels that win over those that a worker announces."""

    labels: Annotated[dict[Text, Text], Field(max_length=MOST_LABELS)] = Field(
        description="All of them: others that staff set before are gone. An empty value takes a label away.",
        examples=[{"region": "home", "vram": ""}],
    )


class Fleet(BaseModel):
    """Workers, the workers, most recently seen first."""

    workers: list[FleetWorker]
