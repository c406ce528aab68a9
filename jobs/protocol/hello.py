"""What a worker may report about itself when it connects, and the answer."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from core.values import BIGINT, INTEGER, Body, Name, Number, Text, Whole
from jobs import operations
from jobs.domain import labels as domain
from jobs.domain.workers import Facts, Gpu
from jobs.models import Worker
from jobs.protocol.jobs import JobId

MOST_GPUS = 64
MOST_HANDLERS = 200
MOST_MODELS = 500
MOST_STUCK = 100
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
    labels: Annotated[dict[Text, Text], Field(max_length=domain.MOST_LABELS)] = Field(
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
    checked = domain.checked_labels(body.labels)
    operations.introduce(worker, Facts(**fields, **lists, labels=checked, gpus=gpus))
    return Welcome(worker=worker.name, queues=worker.queues, drained=worker.drained_at is not None)
