"""A worker in the little: it holds one job, and has its outcome by itself."""

import asyncio
import contextvars

from jobfarm_worker.farm import Farm
from jobfarm_worker.held import HeldJob
from jobfarm_worker.observing import Scoreboard
from jobfarm_worker.protocol import JobResult
from jobfarm_worker.reports import Heartbeats
from jobfarm_worker.tasks import Tasks, Threads


class Holder:
    """`ended` is done once the job is over."""

    def __init__(self, farm: Farm) -> None:
        self.farm = farm
        self.board = Scoreboard()
        self.threads = Threads()
        self.tasks = Tasks(self.fail)
        self.heartbeats = Heartbeats(farm, tasks=self.tasks)
        self.context = contextvars.copy_context()
        self.run_by = asyncio.current_task()
        self.stopping = asyncio.Event()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def hand_in(self, held: HeldJob, outcome: JobResult, _took_s: float) -> None:
        assert outcome.success, outcome.error
        held.answered(None)

    def let_go(self, _held: HeldJob) -> None:
        self.ended.set_result(None)

    def fail(self, error: Exception) -> None:
        self.ended.set_exception(error)
