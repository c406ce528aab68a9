"""What the worker has done and does now: the numbers behind the status line."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from jobfarm_worker.outbox import Progress
from jobfarm_worker.protocol import ClaimedJob

Ending = Literal["success", "failed", "suspended", "stopped"]


@dataclass(slots=True, kw_only=True)
class Running:
    id: int
    kind: str
    fraction: float | None = None
    detail: str = ""
    is_stopped: bool = False  # it was taken away, and its handler runs on
    is_stuck: bool = False  # and has for a while


class Scoreboard:
    """Counts endings and knows what runs; touched on the loop's thread only."""

    def __init__(self) -> None:
        self.endings: Counter[Ending] = Counter()
        self.jobs: dict[int, Running] = {}
        self.on_stuck: Callable[[], None] = lambda: None
        """Called when `stuck` has changed."""

    def began(self, claimed: ClaimedJob) -> None:
        self.jobs[claimed.id] = Running(id=claimed.id, kind=claimed.kind)

    def ended(self, claimed: ClaimedJob) -> None:
        ended = self.jobs.pop(claimed.id, None)  # the same job may be here twice, stopped and claimed again
        if ended is not None and ended.is_stuck:
            self.on_stuck()

    def note(self, job: int, progress: Progress) -> None:
        running = self.jobs.get(job)
        if running is None:
            return
        running.fraction = progress.fraction if progress.fraction is not None else running.fraction
        running.detail = progress.detail if progress.detail is not None else running.detail

    def stopped(self, job: int) -> None:
        """A running job was taken away: its slot is not free before its handler has ended."""
        if running := self.jobs.get(job):
            running.is_stopped = True

    def stuck_on(self, job: int) -> None:
        """A job that was taken away still has its slot."""
        if (running := self.jobs.get(job)) and not running.is_stuck:
            running.is_stuck = True
            self.on_stuck()

    @property
    def stuck(self) -> list[int]:
        """The jobs that were taken away and still have their slots."""
        return sorted(job for job, running in self.jobs.items() if running.is_stuck)

    def count(self, ending: Ending) -> None:
        self.endings[ending] += 1
