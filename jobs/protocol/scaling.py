"""What autoscalers are answered."""

from typing import Final

from pydantic import BaseModel, Field

from jobs.domain.scaling import wanted_workers
from jobs.queries.scaling import QueueLoad

LONGEST_DRAIN_S: Final = 86_400
MOST_JOBS_PER_WORKER: Final = 1000


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
    """Every queue, by name."""

    queues: list[QueueScale]


def scale(queue_load: QueueLoad, *, drain_s: float, jobs_per_worker: int) -> QueueScale:
    """One queue's answer."""
    load = queue_load.load
    return QueueScale(
        queue=queue_load.queue, waiting=load.waiting, running=load.running,
        oldest_wait_s=round(queue_load.oldest_wait_s, 3),
        wanted_workers=wanted_workers(load, drain_s=drain_s, jobs_per_worker=jobs_per_worker),
        arrivals_per_s=round(load.arrivals_per_s, 6),
        mean_run_s=None if load.mean_run_s is None else round(load.mean_run_s, 6), ceiling=load.ceiling,
        paused=load.is_paused,
    )  # fmt: skip
