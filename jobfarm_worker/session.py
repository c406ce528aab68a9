"""One run of a worker: its claims, its slots, and its way to the end."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import math
from collections.abc import Callable
from typing import Any

from jobfarm_worker import logs
from jobfarm_worker.claims import AT_ONCE_S, Claims
from jobfarm_worker.errors import Refused
from jobfarm_worker.farm import Farm
from jobfarm_worker.held import HeldJob, finish, give_back
from jobfarm_worker.options import Options
from jobfarm_worker.protocol import ClaimedJob
from jobfarm_worker.registry import Handlers
from jobfarm_worker.running import failure
from jobfarm_worker.scoreboard import Scoreboard

CLAIM_ENDS_S = 2.0  # how long a claim under way may take to answer when the worker stops
GIVE_BACK_S = 5.0  # for all releases together; a job that could not be released is lost at the farm
log = logging.getLogger("jobfarm_worker")


class Session:
    """One run of a worker: its connection, its slots, and its way to the end."""

    def __init__(self, settings: Options, *, farm: Farm, handlers: Handlers, board: Scoreboard) -> None:
        self.farm = farm
        self._options = settings
        self._handlers = handlers
        self._board = board
        self._held: dict[int, HeldJob] = {}
        self._slots: set[asyncio.Task[None]] = set()
        self._returning: set[asyncio.Task[None]] = set()
        self._freed = asyncio.Event()
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._fatal: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        farm.on_up = self._beat_all
        farm.on_stop = self._stop_job
        farm.on_unclaimed = self._return_late
        farm.heartbeat_of_held = self._shortest_heartbeat_s

    async def run(self) -> None:
        """Claim and run until stopped, then let go of everything; raises what ended the worker."""
        background = [
            asyncio.create_task(self._guarded(each)) for each in (self._claim_all, self.farm.keep_socket)
        ]
        try:
            await _any_of(self._stopping.wait(), self._fatal)
            await asyncio.wait(background[:1], timeout=CLAIM_ENDS_S if self._stopping.is_set() else 0)
            await self._let_finish()
        finally:
            await self._let_go(background)
        if self._fatal.done():
            self._fatal.result()

    def stop(self) -> None:
        """Take no more; a second call gives everything back at once."""
        if self._stopping.is_set():
            self._hurry.set()
        else:
            log.info("stopping: %d running", len(self._held))
        self._stopping.set()

    async def _guarded(self, work: Callable[[], Any]) -> None:
        try:
            await work()
        except Exception as error:  # whatever ends a background task ends the worker
            self._end(error)

    def _end(self, error: Exception) -> None:
        if not self._fatal.done():
            self._fatal.set_exception(error)

    async def _claim_all(self) -> None:
        """Keep every slot busy: claim as many jobs as there are free slots, wait, claim again."""
        claims = Claims(self.farm, options=self._options, stop=self._stopping)
        while not self._stopping.is_set():
            free = await self._free_slots()
            started_s = asyncio.get_running_loop().time()
            jobs = await claims.claim(free) if free else []
            for job in jobs:
                self._start(job)
            await claims.rest(claimed_count=len(jobs), took_s=asyncio.get_running_loop().time() - started_s)

    async def _free_slots(self) -> int:
        while (free := self._options.concurrency - len(self._slots)) < 1:
            self._freed.clear()
            await _any_of(self._freed.wait(), self._stopping.wait())
            if self._stopping.is_set():
                return 0
        return free

    def _start(self, claimed: ClaimedJob) -> None:
        self.farm.heartbeat_s = claimed.heartbeat_s
        if self._stopping.is_set():
            self._return(claimed)
            return
        slot = asyncio.create_task(self._guarded(functools.partial(self._work, claimed)))
        self._slots.add(slot)
        slot.add_done_callback(self._free)

    def _return(self, claimed: ClaimedJob) -> None:
        """Give back a job that nobody here will run, beside everything else."""
        self._let_return(functools.partial(give_back, claimed, farm=self.farm))

    def _return_late(self, claimed: ClaimedJob) -> None:
        """A job that came with an answer nobody waited for any more: given back if nothing else may bring it.

        While we go on, the same call is made again, and its answer brings this very lease: released by us, the job
        would be somebody else's while it runs here. What no repeat brings goes back by itself: nobody confirms it.
        """
        if self._stopping.is_set() and claimed.id not in self._held:
            self._return(claimed)

    def _let_return(self, giving: Callable[[], Any]) -> None:
        task = asyncio.create_task(self._guarded(giving))
        self._returning.add(task)
        task.add_done_callback(self._returning.discard)

    def _free(self, slot: asyncio.Task[None]) -> None:
        self._slots.discard(slot)
        self._freed.set()

    async def _work(self, claimed: ClaimedJob) -> None:
        """One slot: this job, then whatever came with the answer to its finish."""
        following = [claimed]
        while following:
            job, *others = following
            for other in others:
                self._start(other)
            following = await self._one(job)
            if following:  # then there may be more for the slots that wait, and no push will come
                self.farm.poll_now()
            if self._stopping.is_set():
                for each in following:
                    self._return(each)
                return

    async def _one(self, claimed: ClaimedJob) -> list[ClaimedJob]:
        with logs.about(claimed):
            handler = self._handlers.get(claimed.kind)
            if handler is None:
                return await self._refuse(claimed)
            held = HeldJob(claimed, handler=handler, farm=self.farm, board=self._board, on_fatal=self._end)
            log.info("%s: attempt %s", claimed, claimed.attempt)
            self._held[claimed.id] = held
            try:
                return await held.run(claim_next=self._claim_next)
            finally:
                if self._held.get(claimed.id) is held:
                    del self._held[claimed.id]

    def _claim_next(self) -> int:
        """One more for the slot that becomes free; none when stopping, or when only some queues will do.

        The finish call names no queues, so what comes with it may be from any.
        """
        return 0 if self._stopping.is_set() or self._options.queues else 1

    async def _refuse(self, claimed: ClaimedJob) -> list[ClaimedJob]:
        """Fail the attempt rather than release it: released, it would come back to us at once, for ever."""
        known = ", ".join(self._handlers)
        log.warning("%s: no handler for this kind (there is: %s)", claimed, known)
        outcome = failure(f"This worker has no handler for the kind {claimed.kind!r}; it knows {known}.")
        self._board.count("failed")
        try:
            return await finish(claimed, outcome, farm=self.farm, claim_next=self._claim_next())
        except Refused as error:
            log.warning("%s: %s", claimed, error)
            return []

    def _shortest_heartbeat_s(self) -> float:
        return min((held.heartbeat_s for held in self._held.values()), default=math.inf)

    def _beat_all(self) -> None:
        """The socket was away: what happened meanwhile was not pushed, so every job sends a heartbeat."""
        for held in self._held.values():
            held.beat_now()

    def _stop_job(self, job: int, reason: str) -> None:
        held = self._held.get(job)
        if held is not None:
            held.stop(reason)
        else:  # its claim may be on the way from the socket to a slot: let it send a heartbeat in a moment
            asyncio.get_running_loop().call_later(AT_ONCE_S, self._beat_one, job)

    def _beat_one(self, job: int) -> None:
        if held := self._held.get(job):
            held.beat_now()

    async def _let_finish(self) -> None:
        """Wait for running jobs, for the grace at most; not at all after a second signal or a refused key."""
        if self._slots and not self._fatal.done():
            done = asyncio.wait(set(self._slots), timeout=self._options.grace_s)
            await _any_of(done, self._hurry.wait(), self._fatal)

    async def _let_go(self, background: list[asyncio.Task[None]]) -> None:
        """Give back what is still held (a refused key could not), then end every task."""
        background[0].cancel()
        if self._fatal.done():
            for held in self._held.values():
                held.stop("the worker ends")
        else:
            await self._give_all_back()
        tasks = [*background, *self._slots, *self._returning]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=AT_ONCE_S)

    async def _give_all_back(self) -> None:
        """Release what is held, and what comes meanwhile with answers that are late."""
        for held in self._held.values():
            self._let_return(held.give_back)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GIVE_BACK_S):
                while self._returning:
                    await asyncio.wait(self._returning)


async def _any_of(*awaitables: Any) -> None:
    """Wait until one is done; the others are canceled, futures of somebody else's are left alone."""
    tasks = {asyncio.ensure_future(each) for each in awaitables}
    own = tasks - set(awaitables)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in own:
            task.cancel()
