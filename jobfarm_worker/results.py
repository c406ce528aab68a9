"""Outcomes of short jobs, handed in together; the answer brings the next jobs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobfarm_client.errors import refusal
from jobfarm_worker import protocol
from jobfarm_worker.errors import Refused, Unreachable, WorkerError
from jobfarm_worker.farm import Farm
from jobfarm_worker.protocol import ClaimedJob, JobResult

WAIT_S = 0.01  # from the first end to the call, unless another is under way, or was until just now
LONGEST_PAUSE_S = 0.05  # between calls, which keep a worker from its jobs; twice the last call where that is less
MOST = 100  # outcomes in one call, and jobs in an answer
CALLS = 2  # under way at a time: the farm has the next one when it has answered one
SMALL = 2_000  # characters; a longer result is handed in by itself. A hundred of them fit into a message of the socket
log = logging.getLogger("jobfarm_worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One outcome that waits for the farm's answer."""

    claimed: ClaimedJob
    outcome: JobResult
    answered: asyncio.Future[None]


class Results:
    """Collects outcomes and hands them in, by two calls at a time; `run` must run meanwhile.

    `claim_next` says, as a call leaves, how many jobs it is to claim; `on_jobs` gets those that came, and then
    `on_answer` is called.
    """

    def __init__(
        self,
        farm: Farm,
        *,
        claim_next: Callable[[], int],
        on_jobs: Callable[[Sequence[ClaimedJob]], None],
        on_answer: Callable[[], None],
    ) -> None:
        self._farm = farm
        self._claim_next = claim_next
        self._on_jobs = on_jobs
        self._on_answer = on_answer
        self._loop = asyncio.get_running_loop()
        self._waiting: list[Entry] = []
        self._first_s = 0.0
        self._some = asyncio.Event()
        self._changed = asyncio.Event()  # what decides when the next call leaves
        self._gathering = asyncio.Lock()
        self._is_hurried = False
        self._under_way = 0  # calls
        self._lasted_s = 0.0  # the last call
        self._ended_s = 0.0
        self.requested = 0
        """How many jobs the calls under way are to bring."""

    @property
    def is_pending(self) -> bool:
        """Whether an answer is to come that may bring jobs."""
        return bool(self._waiting) or self._under_way > 0

    def hand_in(self, claimed: ClaimedJob, outcome: JobResult) -> Awaitable[None]:
        """Hand in one outcome with others; awaiting it ends when the farm has it, or raises Refused or Unauthorized."""
        entry = Entry(claimed=claimed, outcome=outcome, answered=self._loop.create_future())
        if not self._waiting:
            self._first_s = self._loop.time()
        self._waiting.append(entry)
        self._some.set()
        if len(self._waiting) >= MOST:
            self._changed.set()
        return entry.answered

    def hurry(self) -> None:
        """Let what waits leave as soon as it can: nothing is left to do meanwhile."""
        self._is_hurried = bool(self._waiting)
        self._changed.set()

    async def run(self) -> None:
        """Hand in what comes; to be canceled."""
        await asyncio.gather(*(self._hand_in_batches() for _ in range(CALLS)))

    async def _hand_in_batches(self) -> None:
        while True:
            async with self._gathering:
                batch = await self._gathered()
            self._under_way, began_s = self._under_way + 1, self._loop.time()
            try:
                await self._hand_in(batch)
            finally:
                self._under_way -= 1
                self._ended_s = self._loop.time()
                self._lasted_s = self._ended_s - began_s
                self._changed.set()
                self._on_answer()

    async def _gathered(self) -> list[Entry]:
        """What the next call hands in: what ended within WAIT_S after the first; more while another call is under way,
        but for as many as one takes and when there is a hurry."""
        await self._some.wait()
        while not (self._is_hurried or len(self._waiting) >= MOST):
            leaves_s = math.inf if self._under_way else self._leaves_s()
            if leaves_s <= self._loop.time():
                break
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(leaves_s if leaves_s < math.inf else None):
                    await self._changed.wait()
        batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
        self._is_hurried = False
        if not self._waiting:
            self._some.clear()
        return batch

    def _leaves_s(self) -> float:
        pause_s = min(2 * self._lasted_s, LONGEST_PAUSE_S)
        return max(self._first_s + WAIT_S, self._ended_s + pause_s)

    async def _hand_in(self, batch: Sequence[Entry]) -> None:
        try:
            await self._together(batch)
        except Refused as error:
            log.debug("%d results are handed in one by one: %s", len(batch), error)
            await asyncio.gather(*(self._alone(entry) for entry in batch))
        except WorkerError as error:
            for entry in batch:
                _settle(entry, error)

    async def _together(self, batch: Sequence[Entry]) -> None:
        finished = [(entry.claimed, entry.outcome) for entry in batch]
        claim_next = self._claim_next()
        self.requested += claim_next
        try:
            call = protocol.finish_many(finished, claim_next=claim_next)
            heartbeat_s = min(entry.claimed.heartbeat_s for entry in batch)
            answer = await self._farm.insist(call, heartbeat_s=heartbeat_s)
        finally:
            self.requested -= claim_next
        self._on_jobs(_jobs(answer))
        for entry, verdict in zip(batch, _verdicts(answer, len(batch)), strict=True):
            _settle(entry, verdict)

    async def _alone(self, entry: Entry) -> None:
        """The farm will not take the whole: whose fault it is, it says of each."""
        call = protocol.finish(entry.claimed, entry.outcome)
        try:
            await self._farm.insist(call, heartbeat_s=entry.claimed.heartbeat_s)
        except WorkerError as error:
            _settle(entry, error)
        else:
            _settle(entry, None)


def _settle(entry: Entry, error: WorkerError | None) -> None:
    if entry.answered.done():
        return
    if error is None:
        entry.answered.set_result(None)
    else:
        entry.answered.set_exception(error)


def _jobs(answer: Mapping[str, Any]) -> list[ClaimedJob]:
    try:
        return protocol.claimed_jobs(answer)
    except Unreachable as error:
        log.warning("%s", error)
        return []


def _verdicts(answer: Mapping[str, Any], count: int) -> list[Refused | None]:
    """What the farm says of each outcome: None where it has it."""
    entries = answer.get("finished")
    if not isinstance(entries, list) or len(entries) != count:
        return [None] * count
    return [_verdict(entry) if isinstance(entry, dict) else None for entry in entries]


def _verdict(entry: Mapping[str, Any]) -> Refused | None:
    return refusal(status=409, data=entry) if "error" in entry else None
