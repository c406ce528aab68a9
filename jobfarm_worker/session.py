"""One run of a worker: its claims, its slots, and its way to the end."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jobfarm_worker import facts, logs, protocol
from jobfarm_worker.claims import AT_ONCE_S, MOST_CLAIMED, Claims
from jobfarm_worker.errors import LOST, Refused, WrongServer
from jobfarm_worker.farm import Farm
from jobfarm_worker.held import HeldJob, finish, give_back, unclaim
from jobfarm_worker.intake import Intake
from jobfarm_worker.options import Options
from jobfarm_worker.prefetching import Prefetching
from jobfarm_worker.protocol import ClaimedJob, JobResult
from jobfarm_worker.registry import Handlers
from jobfarm_worker.results import SMALL, Results
from jobfarm_worker.running import failure
from jobfarm_worker.scoreboard import Scoreboard
from jobfarm_worker.threads import Threads

CLAIM_ENDS_S = 2.0  # how long a claim under way may take to answer when the worker stops
MODELS_EVERY_S = 60.0  # a model that was loaded or removed is known to the farm so soon
NO_MODELS_EVERY_S = 5.0  # a server that is being started is asked sooner
SHARES_S = 1.0  # after another worker was heard to wait, which takes what it can begin meanwhile
GIVE_BACK_S = 5.0  # for all releases together; a job that could not be released is lost at the farm
log = logging.getLogger("jobfarm_worker")


class Slot:
    """One of the jobs at a time; `free` may be called twice."""

    def __init__(self, on_free: Callable[[], None]) -> None:
        self._on_free = on_free
        self._is_free = False

    def free(self) -> None:
        if not self._is_free:
            self._is_free = True
            self._on_free()


class Session:
    """One run of a worker: its connection, its slots, and its way to the end."""

    _shares_until_s = 0.0  # until then another worker takes what this one could keep ready

    def __init__(self, settings: Options, *, farm: Farm, handlers: Handlers, board: Scoreboard) -> None:
        self.farm = farm
        self._options = settings
        self._handlers = handlers
        self._board = board
        self._held: dict[int, HeldJob] = {}
        self._taken = 0  # slots
        self._runs: set[asyncio.Task[None]] = set()  # jobs at work, and those whose answer is to come
        self._returning: set[asyncio.Task[None]] = set()
        self._prefetching = Prefetching(concurrency=settings.concurrency, most=settings.prefetch)
        self._threads = Threads()
        self._intake = Intake(give_back=self._return)
        self._facts: Mapping[str, Any] = {}  # as they were reported last
        self._requested = 0  # jobs that finish calls under way are to bring beside those for their own slots
        self._results = Results(farm, claim_next=self._claim_for_free, on_jobs=self._take, on_answer=self._begin)
        self._context = contextvars.copy_context()
        self._freed = asyncio.Event()
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._fatal: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        farm.on_up = self._beat_all
        farm.on_stop = self._stop_job
        farm.on_unclaimed = self._return_late
        farm.on_drained = self._intake.return_all
        farm.on_share = self._share
        farm.heartbeat_of_held = self._shortest_heartbeat_s

    async def run(self) -> None:
        """Claim and run until stopped, then let go of everything; raises what ended the worker."""
        work = (self._claim_all, self.farm.keep_socket, self._results.run, self._introduce)
        background = [asyncio.create_task(self._guarded(each)) for each in work]
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
        self._intake.return_all()
        self._results.hurry()

    async def _guarded(self, work: Callable[[], Any]) -> None:
        try:
            await work()
        except Exception as error:  # whatever ends a background task ends the worker
            self._end(error)

    def _end(self, error: Exception) -> None:
        if not self._fatal.done():
            self._fatal.set_exception(error)

    async def _introduce(self) -> None:
        """Report what this worker is, and again which slots are stuck, and every minute which models it serves, if it
        serves any. A farm that has no such call lacks a line on a page, and nothing else."""
        gathering = functools.partial(
            facts.gathered,
            handlers=list(self._handlers),
            concurrency=self._options.concurrency,
            labels=self._options.labels,
        )
        fields = await asyncio.to_thread(gathering)
        has_changed = asyncio.Event()
        self._board.on_stuck = has_changed.set
        while True:
            has_changed.clear()
            models, every_s = await self._served()
            self._facts = {**fields, **models, **facts.stuck(self._board.stuck)}
            await self._say_hello(self._facts)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(every_s):
                    await has_changed.wait()

    async def _served(self) -> tuple[dict[str, list[str]], float | None]:
        """Which models this worker serves, as facts, and after how many seconds to ask again; None: it serves none."""
        if not self._handlers.serve_models:
            return {}, None
        models = facts.announced(await self._handlers.models())
        loaded = facts.announced(await self._handlers.loaded())
        named = {"models": models, **({"loaded": loaded} if loaded else {})}
        return named, MODELS_EVERY_S if models else NO_MODELS_EVERY_S

    async def _say_hello(self, fields: Mapping[str, Any]) -> None:
        try:
            await self.farm.insist(protocol.hello(fields), heartbeat_s=self.farm.heartbeat_s)
        except (Refused, WrongServer) as error:
            log.debug("the farm does not take what this worker says of itself: %s", error)

    async def _claim_all(self) -> None:
        """Keep every slot busy: claim as many jobs as there are free slots and room, wait, claim again."""
        claims = Claims(self.farm, options=self._options, stop=self._stopping)
        while not self._stopping.is_set():
            free = await self._free_slots()
            started_s = asyncio.get_running_loop().time()
            jobs = await claims.claim(free + self._more()) if free else []
            self._take(jobs)
            await claims.rest(claimed_count=len(jobs), took_s=asyncio.get_running_loop().time() - started_s)

    def _more(self) -> int:
        """What a claim asks for beside what can begin: nothing while this worker waits for work, as others may. Only
        where no finish may claim, this is the way to jobs that lie ready."""
        return max(0, self._room()) if self._options.queues else 0

    def _room(self) -> int:
        """How many jobs more may lie ready; less than none where those that are under way are more."""
        may_keep = not self.farm.is_drained and asyncio.get_running_loop().time() >= self._shares_until_s
        most = self._prefetching.room(self.farm.heartbeat_s) if may_keep else 0
        return most - len(self._intake) - self._requested - self._results.requested

    async def _free_slots(self) -> int:
        while (free := self._free_count()) < 1:
            self._freed.clear()
            await _any_of(self._freed.wait(), self._stopping.wait())
            if self._stopping.is_set():
                return 0
        return free

    def _free_count(self) -> int:
        """Slots that no answer under way may fill."""
        if self._results.is_pending and not self._options.queues:
            return 0
        return self._options.concurrency - self._taken

    def _share(self) -> None:
        """Another worker waits for work: what was not begun is for it, and for a while nothing more is kept."""
        self._shares_until_s = asyncio.get_running_loop().time() + SHARES_S
        self._intake.return_all()

    def _take(self, jobs: Sequence[ClaimedJob]) -> None:
        """Jobs that came: slots that are free begin, the others take theirs when they are."""
        if not jobs:
            return
        self.farm.heartbeat_s = jobs[-1].heartbeat_s
        if self._stopping.is_set():
            self._return(jobs)
            return
        self._intake.put(jobs)
        self._begin()
        self._intake.return_those(lambda job: job.has_ceiling)

    def _begin(self) -> None:
        """Let the jobs that lie ready begin on the slots that are free."""
        while self._taken < self._options.concurrency and not self._stopping.is_set():
            if (job := self._intake.next()) is None:
                if self._results.is_pending and not self._taken:
                    self._results.hurry()  # nothing is left to do until its answer comes
                break
            self._taken += 1
            work = self._guarded(functools.partial(self._run, job))
            task = asyncio.create_task(work, context=self._context.copy())  # not of the job that ended
            self._runs.add(task)
            task.add_done_callback(self._runs.discard)
        if self._free_count():
            self._freed.set()

    def _return(self, jobs: Sequence[ClaimedJob]) -> None:
        """Give back jobs that nobody here has begun, beside everything else."""
        log.info("%d not begun: given back", len(jobs))
        self._let_return(functools.partial(unclaim, jobs, farm=self.farm))

    def _return_late(self, claimed: ClaimedJob) -> None:
        """A job that came with an answer nobody waited for any more: given back if nothing else may bring it.

        While we go on, the same call is made again, and its answer brings this very lease: released by us, the job
        would be somebody else's while it runs here. What no repeat brings goes back by itself: nobody confirms it.
        """
        if self._stopping.is_set() and claimed.id not in self._held:
            self._return([claimed])

    def _let_return(self, giving: Callable[[], Any]) -> None:
        task = asyncio.create_task(self._guarded(giving))
        self._returning.add(task)
        task.add_done_callback(self._returning.discard)

    async def _run(self, claimed: ClaimedJob) -> None:
        """Run a job on a slot that is taken for it, and free the slot: of a short job before the farm has answered."""
        slot = Slot(self._free)
        try:
            with logs.about(claimed):
                await self._run_on(slot, claimed)
        finally:
            slot.free()

    async def _run_on(self, slot: Slot, claimed: ClaimedJob) -> None:
        handler = self._handlers.get(claimed.kind)
        if handler is None:
            await self._refuse(slot, claimed)
            return
        if (earlier := self._held.get(claimed.id)) is not None and earlier.runs_on:
            log.warning("%s: an earlier attempt of it still runs here; given back", claimed)
            await give_back(claimed, farm=self.farm)
            return
        held = HeldJob(
            claimed, handler=handler, farm=self.farm, board=self._board, threads=self._threads, on_fatal=self._end
        )
        log.info("%s: attempt %s", claimed, claimed.attempt)
        self._held[claimed.id] = held
        try:
            await held.run(hand_in=functools.partial(self._hand_in, slot))
        finally:
            if self._held.get(claimed.id) is held:
                del self._held[claimed.id]

    def _free(self) -> None:
        self._taken -= 1
        self._begin()

    async def _hand_in(self, slot: Slot, claimed: ClaimedJob, outcome: JobResult, took_s: float) -> None:
        """Say how an attempt ended: with others while jobs are short, else at once."""
        self._prefetching.note(took_s, may_wait=not claimed.has_ceiling)
        if outcome.size > SMALL or not (self._intake or self._results.is_pending):
            await self._finish(slot, claimed, outcome)
            return
        handing_in = self._results.hand_in(claimed, outcome)
        slot.free()
        await handing_in

    async def _finish(self, slot: Slot, claimed: ClaimedJob, outcome: JobResult) -> None:
        more = max(0, self._room())
        self._requested += more
        try:
            jobs = await finish(claimed, outcome, farm=self.farm, claim_next=self._claim_next(1 + more))
        finally:
            self._requested -= more
        slot.free()  # for the first of these: none of a queue with a ceiling may lie ready
        self._take(jobs)

    def _claim_for_free(self) -> int:
        return self._claim_next(self._options.concurrency - self._taken + self._room())

    def _claim_next(self, count: int) -> int:
        """So many at most; none when stopping, or when only some queues will do.

        The finish call names no queues, so what comes with it may be from any.
        """
        if self._stopping.is_set() or self._options.queues:
            return 0
        return max(0, min(MOST_CLAIMED, count))

    async def _refuse(self, slot: Slot, claimed: ClaimedJob) -> None:
        """Fail the attempt rather than release it: released, it would come back to us at once, for ever."""
        known = ", ".join(self._handlers)
        log.warning("%s: no handler for this kind (there is: %s)", claimed, known)
        outcome = failure(f"This worker has no handler for the kind {claimed.kind!r}; it knows {known}.")
        self._board.count("failed")
        try:
            await self._finish(slot, claimed, outcome)
        except Refused as error:
            log.warning("%s: %s", claimed, error)

    def _shortest_heartbeat_s(self) -> float:
        return min((held.heartbeat_s for held in self._held.values()), default=math.inf)

    def _beat_all(self) -> None:
        """The socket was away: what happened meanwhile was not pushed, so every job sends a heartbeat.

        What was not begun goes back: it may have been canceled.
        """
        self._intake.return_all()
        for held in self._held.values():
            held.beat_now()

    def _stop_job(self, job: int, reason: str) -> None:
        held = self._held.get(job)
        if held is not None:
            held.stop(reason)
        elif self._intake.drop(job):
            log.warning("job %d was not begun, and will not be: %s", job, LOST.get(reason, reason))
            self._board.count("stopped")
        else:  # its claim may be on the way from the socket to a slot: let it send a heartbeat in a moment
            asyncio.get_running_loop().call_later(AT_ONCE_S, self._beat_one, job)

    def _beat_one(self, job: int) -> None:
        if held := self._held.get(job):
            held.beat_now()

    async def _let_finish(self) -> None:
        """Wait for running jobs, for the grace at most; not at all after a second signal or a refused key."""
        if (tasks := set(self._runs)) and not self._fatal.done():
            done = asyncio.wait(tasks, timeout=self._options.grace_s)
            await _any_of(done, self._hurry.wait(), self._fatal)

    async def _let_go(self, background: list[asyncio.Task[None]]) -> None:
        """Give back what is still held (a refused key could not), then end every task."""
        for task in (background[0], background[-1]):  # what it says from here on is that it ends
            task.cancel()
        if self._fatal.done():
            for held in self._held.values():
                held.stop("the worker ends")
        else:
            await self._give_all_back()
        tasks = [*background, *self._runs, *self._returning]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=AT_ONCE_S)
        self._threads.close()

    async def _give_all_back(self) -> None:
        """Release what is held, and what comes meanwhile with answers that are late; and say that this worker ends: its
        models are listed until then."""
        if self._facts.get("models"):
            self._let_return(functools.partial(self._say_hello, {**self._facts, "leaving": True}))
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
