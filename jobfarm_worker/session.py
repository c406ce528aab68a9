"""One run of a worker: its claims, its slots, and its way to the end."""

import asyncio
import contextlib
import contextvars
import functools
import logging
import math
from collections.abc import Coroutine, Sequence
from typing import Any

from jobfarm_worker.claims import AT_ONCE_S, MOST_CLAIMED, Claims, Intake, Prefetching
from jobfarm_worker.errors import LOST, Refused, Unauthorized, WorkerError
from jobfarm_worker.farm import Farm
from jobfarm_worker.held import HeldJob, give_back, unclaim
from jobfarm_worker.introduction import Introduction
from jobfarm_worker.observing import Scoreboard
from jobfarm_worker.options import Options
from jobfarm_worker.protocol import ClaimedJob, JobResult
from jobfarm_worker.reports import Heartbeats
from jobfarm_worker.results import SMALL, Entry, Results
from jobfarm_worker.running import Handlers, failure
from jobfarm_worker.tasks import Tasks, Threads, first

CLAIM_ENDS_S = 2.0  # how long a claim under way may take to answer when the worker stops
FREE_RETURNS = 3  # of a job whose earlier attempt still runs here, as if never claimed
SHARES_S = 1.0  # after another worker was heard to wait, which takes what it can begin meanwhile
GIVE_BACK_S = 5.0  # for all releases together; a job that could not be released is lost at the farm
log = logging.getLogger("jobfarm_worker")


class Session:
    """One run of a worker: its connection, its slots, and its way to the end."""

    _shares_until_s = 0.0  # until then another worker takes what this one could keep ready

    def __init__(self, settings: Options, *, farm: Farm, handlers: Handlers, board: Scoreboard) -> None:
        self.farm = farm
        self.board = board
        self.threads = Threads()
        self.tasks = Tasks(self.fail)
        self.heartbeats = Heartbeats(farm, tasks=self.tasks)
        self.context = contextvars.copy_context()
        self.run_by = asyncio.current_task()
        self._options = settings
        self._handlers = handlers
        self._held: dict[int, HeldJob] = {}
        self._taken = 0  # slots
        self._returning: set[asyncio.Task[None]] = set()
        self._prefetching = Prefetching(concurrency=settings.concurrency, most=settings.prefetch)
        self._intake = Intake(give_back=self._return)
        self._introduction = Introduction(farm, options=settings, handlers=handlers, board=board)
        self._claiming = 0  # jobs that a claim under way is to bring
        self._results = Results(
            farm=farm, tasks=self.tasks, claim_next=self._claim_next, on_jobs=self._take, on_answer=self._answered
        )
        self._freed = asyncio.Event()
        self._idle = asyncio.Event()  # nothing is held, and no answer is to come
        self.stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._fatal: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._listen()

    def _listen(self) -> None:
        farm = self.farm
        farm.on_up = self._connected
        farm.on_stop = self._stop_job
        farm.on_unclaimed = self._return_late
        farm.on_drained = self._intake.return_all
        farm.on_share = self._share
        farm.heartbeat_of_held = self._shortest_heartbeat_s

    async def run(self) -> None:
        """Claim and run until stopped, then let go of everything; raises what ended the worker."""
        claiming = self.tasks.start(self._claim_all())
        introducing = self.tasks.start(self._introduction.run())
        self.tasks.start(self.farm.keep_socket())
        try:
            await first(self.stopping.wait(), self._fatal)
            await asyncio.wait([claiming], timeout=CLAIM_ENDS_S if self.stopping.is_set() else 0)
            await self._let_finish()
        finally:
            self.stopping.set()  # also where nobody asked for it: what ends now leaves its slot empty
            self._intake.return_all()
            for task in (claiming, introducing):  # what it says from here on is that it ends
                task.cancel()
            await self._let_go()
        if self._fatal.done():
            self._fatal.result()

    def stop(self) -> None:
        """Take no more; a second call gives everything back at once."""
        if self.stopping.is_set():
            self._hurry.set()
        else:
            log.info("stopping: %d running", len(self._held))
        self.stopping.set()
        self._intake.return_all()
        self._results.hurry()

    def fail(self, error: Exception) -> None:
        """End the worker with this error; the first one counts."""
        if not self._fatal.done():
            self._fatal.set_exception(error)

    async def _claim_all(self) -> None:
        """Keep every slot busy: claim as many jobs as there are free slots and room, wait, claim again."""
        claims = Claims(self.farm, options=self._options, stop=self.stopping)
        while not self.stopping.is_set():
            free = await self._free_slots()
            started_s = asyncio.get_running_loop().time()
            jobs = await self._claimed(claims, free + self._more()) if free else []
            self._take(jobs)
            await claims.rest(claimed_count=len(jobs), took_s=asyncio.get_running_loop().time() - started_s)

    async def _claimed(self, claims: Claims, count: int) -> list[ClaimedJob]:
        self._claiming = count
        try:
            return await claims.claim(count)
        finally:
            self._claiming = 0

    def _more(self) -> int:
        """What a claim asks for beside what can begin: nothing while this worker waits for work, as others may. Only
        where no finish may claim, this is the way to jobs that lie ready."""
        return max(0, self._room()) if self._options.queues else 0

    def _room(self) -> int:
        """How many jobs more may lie ready; less than none where those that are under way are more."""
        may_keep = not (self.farm.is_drained or self._shares())
        most = self._prefetching.room(self.farm.heartbeat_s) if may_keep else 0
        return most - len(self._intake) - self._claiming - self._results.requested

    async def _free_slots(self) -> int:
        while (free := self._free_count()) < 1:
            self._freed.clear()
            await first(self._freed.wait(), self.stopping.wait())
            if self.stopping.is_set():
                return 0
        return free

    def _free_count(self) -> int:
        """Slots that no answer under way may fill."""
        if self._results.is_pending and not self._options.queues:
            return 0
        return self._options.concurrency - self._taken

    def _shares(self) -> bool:
        return asyncio.get_running_loop().time() < self._shares_until_s

    def _share(self) -> None:
        """Another worker waits for work: what was not begun is for it, and for a while nothing more is kept."""
        self._shares_until_s = asyncio.get_running_loop().time() + SHARES_S
        self._intake.return_all()

    def _take(self, jobs: Sequence[ClaimedJob]) -> None:
        """Jobs that came: slots that are free begin, the others take theirs when they are."""
        if not jobs:
            return
        self.farm.heartbeat_s = jobs[-1].heartbeat_s
        if self.stopping.is_set():
            self._return(jobs)
            return
        self._intake.put(jobs)
        self._begin()
        shares = self._shares()
        self._intake.return_those(lambda job: shares or job.has_ceiling)

    def _begin(self) -> None:
        """Let the jobs that lie ready begin on the slots that are free."""
        while self._taken < self._options.concurrency and not self.stopping.is_set():
            if (job := self._intake.next()) is None:
                if self._results.is_pending and not self._taken:
                    self._results.hurry()  # nothing is left to do until its answer comes
                break
            self._taken += 1
            self._start(job)
        if self._free_count():
            self._freed.set()

    def _return(self, jobs: Sequence[ClaimedJob]) -> None:
        """Give back jobs that nobody here has begun, beside everything else."""
        log.info("%d not begun: given back", len(jobs))
        self._let_return(unclaim(jobs, farm=self.farm))

    async def _return_in_a_while(self, claimed: ClaimedJob, earlier: HeldJob) -> None:
        """At once it would come back at once, where no other worker takes it. Unclaimed it keeps its place, before all
        that could run: from the fourth time on it is released, and the farm has it wait, longer each time."""
        earlier.returns += 1
        await first(self.stopping.wait(), timeout_s=AT_ONCE_S)
        if earlier.returns > FREE_RETURNS:
            await give_back(claimed, farm=self.farm)
        else:
            await unclaim([claimed], farm=self.farm)

    def _return_late(self, claimed: ClaimedJob) -> None:
        """A job that came with an answer nobody waited for any more: given back if nothing else may bring it.

        While we go on, the same call is made again, and its answer brings this very lease: released by us, the job
        would be somebody else's while it runs here. What no repeat brings goes back by itself: nobody confirms it.
        """
        if self.stopping.is_set() and claimed.id not in self._held:
            self._return([claimed])

    def _let_return(self, giving: Coroutine[Any, Any, None]) -> None:
        task = self.tasks.start(giving)
        self._returning.add(task)
        task.add_done_callback(self._returning.discard)

    def _start(self, claimed: ClaimedJob) -> None:
        """Run a job on the slot that was taken for it."""
        handler = self._handlers.get(claimed.kind)
        if handler is None:
            self._refuse(claimed)
        elif (earlier := self._held.get(claimed.id)) is not None and earlier.runs_on:
            log.warning("%s: an earlier attempt of it still runs here; given back", claimed)
            self._free()
            self._let_return(self._return_in_a_while(claimed, earlier))
        else:
            held = self._held[claimed.id] = HeldJob(claimed, handler=handler, holder=self)
            held.start()

    def _refuse(self, claimed: ClaimedJob) -> None:
        """Fail the attempt rather than release it: released, it would come back to us at once, for ever."""
        known = ", ".join(sorted(self._handlers))
        log.warning("%s: no handler for this kind (there is: %s)", claimed, known)
        outcome = failure(f"This worker has no handler for the kind {claimed.kind!r}; it knows {known}.")
        self.board.endings["failed"] += 1
        self._free()
        self._results.hand_in(Entry(claimed, outcome, functools.partial(self._refused, claimed)), alone=True)

    def _refused(self, claimed: ClaimedJob, error: WorkerError | None) -> None:
        if isinstance(error, Refused):
            log.warning("%s: %s", claimed, error)
        elif error is not None:
            self.fail(error)

    def hand_in(self, held: HeldJob, outcome: JobResult, took_s: float) -> None:
        """Say how an attempt ended: with others while jobs are short, else at once. Its slot is free before the farm
        has answered."""
        self._prefetching.note(took_s, may_wait=not held.claimed.has_ceiling)
        alone = outcome.size > SMALL or not (self._intake or self._results.is_pending)
        self._taken -= 1
        self._results.hand_in(Entry(held.claimed, outcome, held.answered), alone=alone)
        held.has_slot = False
        self._begin()

    def let_go(self, held: HeldJob) -> None:
        """It has ended, and the farm knows what there is to know."""
        if self._held.get(held.claimed.id) is held:
            del self._held[held.claimed.id]
        if held.has_slot:
            held.has_slot = False
            self._free()
        self._note_idle()

    def _free(self) -> None:
        self._taken -= 1
        self._begin()

    def _answered(self) -> None:
        self._begin()
        self._note_idle()

    def _note_idle(self) -> None:
        if not (self._held or self._results.is_pending):
            self._idle.set()

    def _claim_next(self, places: int) -> int:
        """How many jobs a finish claims: what can begin, and lie ready; less so many as hold places of ceilings and are
        not handed in yet. None when stopping, or when only some queues will do: a finish names none, so what comes with
        its answer may be from any."""
        if self.stopping.is_set() or self._options.queues:
            return 0
        return max(0, min(MOST_CLAIMED, self._options.concurrency - self._taken - places + self._room()))

    def _shortest_heartbeat_s(self) -> float:
        return min((held.claimed.heartbeat_s for held in self._held.values()), default=math.inf)

    def _connected(self) -> None:
        """The socket was away: what happened meanwhile was not pushed, so every job sends a heartbeat.

        What was not begun goes back: it may have been canceled.
        """
        self._intake.return_all()
        self.heartbeats.beat_all()

    def _stop_job(self, job: int, fence: float, reason: str) -> None:
        """Stop this claim of a job: a later one may have come by HTTP, of which the socket knew nothing."""
        held = self._held.get(job)
        if held is not None:
            if held.claimed.fence <= fence:
                held.stop(reason)
        elif self._intake.drop(job, fence):
            log.warning("job %d was not begun, and will not be: %s", job, LOST.get(reason, reason))
            self.board.endings["stopped"] += 1
        else:  # its claim may be on the way from the socket to a slot: let it send a heartbeat in a moment
            asyncio.get_running_loop().call_later(AT_ONCE_S, self._beat_one, job)

    def _beat_one(self, job: int) -> None:
        if held := self._held.get(job):
            held.beat_now()

    async def _let_finish(self) -> None:
        """Wait for running jobs, for the grace at most; not at all after a second signal or a refused key."""
        self._idle.clear()
        self._note_idle()
        if not self._fatal.done():
            await first(self._idle.wait(), self._hurry.wait(), self._fatal, timeout_s=self._options.grace_s)

    async def _let_go(self) -> None:
        """Give back what is still held (a refused key could not), then end every task."""
        if self._fatal.done() and isinstance(self._fatal.exception(), Unauthorized):
            for held in [*self._held.values()]:
                held.stop("the worker ends")
        else:
            await self._give_all_back()
        await self.tasks.cancel(within_s=AT_ONCE_S)
        self.threads.close()

    async def _give_all_back(self) -> None:
        """Release what is held, and what comes meanwhile with answers that are late."""
        self._let_return(self._introduction.leave())
        for held in self._held.values():
            self._let_return(held.give_back())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GIVE_BACK_S):
                while self._returning:
                    await asyncio.wait(self._returning)
