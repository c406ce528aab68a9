"""What workers report about themselves, and what people and autoscalers call about them and about what is paused."""

from datetime import datetime
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from core.values import BIGINT, INTEGER, Body, Name, Number, Text, Whole
from jobs import operations
from jobs.domain.labels import MOST_LABELS, checked_labels
from jobs.domain.scaling import wanted_workers
from jobs.domain.workers import Facts, Gpu, Presence
from jobs.models import Worker
from jobs.protocol.jobs import JobId
from jobs.queries.fleet import WorkerRow
from jobs.queries.gauges import QueueLoad

MOST_GPUS = 64
MOST_HANDLERS = 200
MOST_MODELS = 500
MOST_STUCK = 100
LONGEST_DRAIN_S: Final = 86_400
MOST_JOBS_PER_WORKER: Final = 1000
_LISTS = ("handlers", "models", "loaded", "stuck")
Short = Annotated[Text, Field(max_length=100)]
Model = Annotated[Text, Field(min_length=1, max_length=200)]
Count = Annotated[Whole, Field(ge=1, le=INTEGER)]
Bytes = Annotated[Whole, Field(ge=0, le=BIGINT)]


class ReportedGpu(Body):
    name: Annotated[Text, Field(min_length=1, max_length=100)] = Field(examples=["NVIDIA GeForce RTX 4090"])
    memory_bytes: Bytes | None = Field(None, examples=[25_757_220_864])


class Hello(Body):
    """What a worker is. Every field may be left out."""

    version: Short = Field("", description="Of the program.", examples=["jobfarm-worker/0.1.0"])
    host: Annotated[Text, Field(max_length=255)] = Field("", examples=["gpu-3"])
    platform: Annotated[Text, Field(max_length=200)] = Field("", examples=["Linux x86_64, Python 3.11"])
    handlers: Annotated[list[Name], Field(max_length=MOST_HANDLERS)] = Field(
        default=[], description="The kinds that it can run."
    )
    concurrency: Count | None = Field(None, description="How many jobs it runs at a time.")
    cpus: Count | None = None
    memory_bytes: Bytes | None = None
    models: Annotated[list[Model], Field(max_length=MOST_MODELS)] = Field(
        default=[], description="The models that it serves, by their names in OpenAI's API.", examples=[["llama3.2"]]
    )
    loaded: Annotated[list[Model], Field(max_length=MOST_MODELS)] = Field(
        default=[],
        description="Those of its models that are in memory: jobs that prefer that come here first.",
        examples=[["llama3.2"]],
    )
    cache_used: Annotated[Number, Field(ge=0, le=1)] | None = Field(
        None,
        description="Which share of its server's cache of prompts is in use: a full one attracts no calls.",
        examples=[0.4],
    )
    labels: Annotated[dict[Text, Text], Field(max_length=MOST_LABELS)] = Field(
        default={},
        description="What jobs may require or prefer of it. Those that staff set win.",
        examples=[{"vram": "24", "region": "home"}],
    )
    gpus: Annotated[list[ReportedGpu], Field(max_length=MOST_GPUS)] = []
    stuck: Annotated[list[JobId], Field(max_length=MOST_STUCK)] = Field(
        default=[],
        description="Jobs that were taken from it and whose handlers have not ended: each has a slot until it does.",
        examples=[[7]],
    )
    leaving: bool = Field(False, description="It ends: its models are not listed any more.")


class Welcome(BaseModel):
    """Who the farm takes it for, and whether it is drained."""

    worker: str
    queues: list[str]
    drained: bool


def hello(worker: Worker, body: Hello) -> Welcome:
    """Say what you are.

    Says what this worker is, for the pages that people look at: nothing rests on it, and every field may be left out,
    the call too. Make it when you start, and again when something changed; the same again costs the farm nothing.
    """
    gpus = tuple(Gpu(name=gpu.name, memory_bytes=gpu.memory_bytes) for gpu in body.gpus)
    fields = body.model_dump(exclude={"gpus", "labels", *_LISTS})
    lists: dict[str, Any] = {name: tuple(dict.fromkeys(getattr(body, name))) for name in _LISTS}
    checked = checked_labels(body.labels)
    operations.introduce(worker, Facts(**fields, **lists, labels=checked, gpus=gpus))
    return Welcome(worker=worker.name, queues=worker.queues, drained=worker.drained_at is not None)


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
    labels: Annotated[dict[Text, Text], Field(max_length=MOST_LABELS)] = Field(
        description="All of them: others that staff set before are gone. An empty value takes a label away.",
        examples=[{"region": "home", "vram": ""}],
    )


class Fleet(BaseModel):
    workers: list[FleetWorker]


class QueueScale(BaseModel):
    """A queue in numbers, flat, so that each has a path of one word."""

    queue: str = Field(examples=["images"])
    waiting: int = Field(description="Jobs that are due and wait, counted up to 10,000.", examples=[120])
    running: int = Field(description="Jobs that run.", examples=[4])
    oldest_wait_s: float = Field(description="Since when the one that waits longest has been due.", examples=[7.5])
    wanted_workers: int = Field(description="How many workers it wants; see above.", examples=[6])
    arrivals_per_s: float = Field(description="Jobs that came in, a second, in the last ten minutes.", examples=[0.2])
    mean_run_s: float | None = Field(
        description="How long runs of the last hour took; null: none ended.", examples=[14.2]
    )
    ceiling: int | None = Field(description="How many may run at a time; null: any number.", examples=[None])
    paused: bool = Field(description="While it is, none of its jobs is claimed.")


class FarmScale(BaseModel):
    queues: list[QueueScale]


def scale(queue_load: QueueLoad, *, drain_s: float, jobs_per_worker: int) -> QueueScale:
    load = queue_load.load
    return QueueScale(
        queue=queue_load.queue, waiting=load.waiting, running=load.running,
        oldest_wait_s=round(queue_load.oldest_wait_s, 3),
        wanted_workers=wanted_workers(load, drain_s=drain_s, jobs_per_worker=jobs_per_worker),
        arrivals_per_s=round(load.arrivals_per_s, 6),
        mean_run_s=None if load.mean_run_s is None else round(load.mean_run_s, 6), ceiling=load.ceiling,
        paused=load.is_paused,
    )  # fmt: skip


class Waiting(Body):
    """Which jobs: of an owner, of a queue, or with a concurrency key of a kind or a queue."""

    owner: Text | None = Field(None, description="A username.", examples=["ada"])
    queue: Text | None = Field(None, examples=[None])
    kind: Text | None = Field(None, description="Of a concurrency key.", examples=[None])
    concurrency_key: Text | None = Field(None, examples=[None])

    @model_validator(mode="after")
    def is_one(self) -> Self:
        scopes = [name for name in ("owner", "queue", "kind") if getattr(self, name) is not None]
        if len(scopes) != 1 or (scopes == ["owner"] and self.concurrency_key is not None):
            raise ValueError("name an owner, or a queue, or a concurrency_key with its kind or its queue")
        if scopes == ["kind"] and self.concurrency_key is None:
            raise ValueError("a kind is paused by its concurrency_key")
        return self


class Pause(BaseModel):
    paused: bool
    since: datetime | None = Field(description="Null where they are not paused.")
    by: str | None = Field(description="Null where code of the site did it.")
