"""How attempts ended, handed in; outcomes of short jobs together. The answers bring the next jobs."""

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobfarm_worker import protocol
from jobfarm_worker.errors import Refused, Unreachable, WorkerError
from jobfarm_worker.farm import Farm
from jobfarm_worker.protocol import ClaimedJob, JobResult
from jobfarm_worker.tasks import Tasks

WAIT_S = 0.01  # from the first end to the call, unless another is under way, or was until just now
LONGEST_PAUSE_S = 0.05  # between calls, which keep a worker from its jobs; twice the last call where that is less
MOST = 100  # outcomes in one call, and jobs in an answer
CALLS = 2  # under way at a time: the farm has the next one when it has answered one
SMALL = 2_000  # characters; a longer result is handed in by itself. A hundred of them fit into a message of the socket
log = logging.getLogger("jobfarm_worker")


@dataclass(slots=True)
class Entry:
    """One outcome that waits for the farm's answer; `answered` gets None, or the Refused or Unauthorized."""

    claimed: ClaimedJob
    outcome: JobResult
    answered: Callable[[WorkerError | None], None]


@dataclass(eq=False, kw_only=True)
class Results:
    """Hands in outcomes: at once and alone, or with others by two calls at a time.

    `claim_next` says, as a call leaves, how many jobs it is to claim, given how many outcomes that are not in this call
    hold places of ceilings; `on_jobs` gets those that came, and then `on_answer` is called.
    """

    farm: Farm
    tasks: Tasks
    claim_next: Callable[[int], int]
    on_jobs: Callable[[Sequence[ClaimedJob]], None]
    on_answer: Callable[[], None]
    requested: int = 0  # jobs that the calls under way are to bring
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _waiting: list[Entry] = field(default_factory=list)
    _timer: asyncio.TimerHandle | None = None
    _first_s: float = 0.0
    _is_hurried: bool = False
    _under_way: int = 0  # calls with several
    _alone: int = 0
    _lasted_s: float = 0.0  # the last call
    _ended_s: float = 0.0
    _places: int = 0  # of ceilings, that outcomes hold until they are answered

    @property
    def is_pending(self) -> bool:
        """Whether an answer is to come that may bring jobs."""
        return bool(self._waiting) or self._under_way + self._alone > 0

    def hand_in(self, entry: Entry, *, alone: bool) -> None:
        self._places += entry.claimed.has_ceiling
        if alone:
            self._hand_in_alone(entry)
            return
        if not self._waiting:
            self._first_s = self._loop.time()
        self._waiting.append(entry)
        if self._timer is None or len(self._waiting) >= MOST:
            self._look()

    def _hand_in_alone(self, entry: Entry) -> None:
        self._alone += 1
        self.tasks.start(self._deliver_alone(entry))

    def hurry(self) -> None:
        """Let what waits leave as soon as it can: nothing is left to do meanwhile."""
        self._is_hurried = bool(self._waiting)
        self._look()

    def _look(self) -> None:
        """Let leave what ended within WAIT_S after the first; more while another call is under way, but for as many as
        one takes and when there is a hurry."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting and self._under_way < CALLS:
            if not (self._is_hurried or len(self._waiting) >= MOST):
                pause_s = min(2 * self._lasted_s, LONGEST_PAUSE_S)
                leaves_s = math.inf if self._under_way else max(self._first_s + WAIT_S, self._ended_s + pause_s)
                if leaves_s > self._loop.time():
                    self._timer = self._loop.call_at(leaves_s, self._look) if leaves_s < math.inf else None
                    return
            batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
            self._is_hurried = False
            self._under_way += 1
            self.tasks.start(self._deliver(batch))

    async def _deliver(self, batch: Sequence[Entry]) -> None:
        began_s = self._loop.time()
        try:
            await self._hand_in(batch)
        finally:
            self._under_way -= 1
            self._ended_s = self._loop.time()
            self._lasted_s = self._ended_s - began_s
            self.on_answer()
            self._look()

    async def _deliver_alone(self, entry: Entry) -> None:
        try:
            await self._hand_in([entry])
        finally:
            self._alone -= 1
            self.on_answer()

    async def _hand_in(self, batch: Sequence[Entry]) -> None:
        verdicts: Sequence[WorkerError | None]
        try:
            answer = await self._answer(batch)
            verdicts = protocol.verdicts(answer.get("finished"), len(batch))
        except Refused as error:
            if len(batch) > 1:  # the farm will not take the whole: whose fault it is, it says of each, or much later
                log.debug("%d results are handed in one by one: %s", len(batch), error)
                for entry in batch:
                    self._hand_in_alone(entry)
                return
            verdicts = [error]
        except WorkerError as error:
            verdicts = [error] * len(batch)
        self._places -= _places(batch)
        for entry, verdict in zip(batch, verdicts, strict=True):
            entry.answered(verdict)

    async def _answer(self, batch: Sequence[Entry]) -> Mapping[str, Any]:
        claim_next = self.claim_next(self._places - _places(batch))
        self.requested += claim_next
        try:
            call = protocol.finish([(entry.claimed, entry.outcome) for entry in batch], claim_next=claim_next)
            answer = await self.farm.insist(call, heartbeat_s=min(entry.claimed.heartbeat_s for entry in batch))
        finally:
            self.requested -= claim_next
        try:
            self.on_jobs(protocol.claimed_jobs(answer))
        except Unreachable as error:
            log.warning("%s", error)
        return answer


def _places(batch: Sequence[Entry]) -> int:
    return sum(entry.claimed.has_ceiling for entry in batch)
