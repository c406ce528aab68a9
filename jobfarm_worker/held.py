"""One job from its claim to its end: run the handler, send what it writes, hand in how it ended or give it back."""

import asyncio
import contextlib
import contextvars
import functools
import logging
import time
from collections.abc import Sequence
from typing import Protocol

from jobfarm_worker import observing, protocol
from jobfarm_worker.asking import Asking
from jobfarm_worker.errors import LOST, Failed, Refused, WorkerError
from jobfarm_worker.farm import Farm
from jobfarm_worker.job import Job
from jobfarm_worker.observing import Ending, Scoreboard
from jobfarm_worker.outbox import Outbox
from jobfarm_worker.protocol import Call, ClaimedJob, JobResult
from jobfarm_worker.reports import Heartbeats, Reporter
from jobfarm_worker.running import Handler, failure, is_async, perform, perform_async
from jobfarm_worker.tasks import Tasks, Threads

STUCK_S = 5.0  # after which a handler that was stopped and runs on is reported
STILL_RUNS_S = 30.0
LONG = 1_000_000  # bytes of a result
log = logging.getLogger("jobfarm_worker")


class Holder(Protocol):
    """What a held job needs of the worker that holds it."""

    farm: Farm
    board: Scoreboard
    threads: Threads
    heartbeats: Heartbeats
    tasks: Tasks
    context: contextvars.Context
    run_by: asyncio.Task[None] | None
    stopping: asyncio.Event

    def hand_in(self, held: "HeldJob", outcome: JobResult, took_s: float) -> None:
        """Say how an attempt ended that kept its slot for so long; then call `held.answered`."""

    def let_go(self, held: "HeldJob") -> None:
        """It has ended, and the farm knows what there is to know."""

    def fail(self, error: Exception) -> None:
        """End the worker."""


class HeldJob:
    """The worker's side of one lease. A short job of a plain handler has no task: each step calls the next."""

    def __init__(self, claimed: ClaimedJob, *, handler: Handler, holder: Holder) -> None:
        self.claimed = claimed
        self.runs_on = False
        """Whether its handler has not ended yet, be the job ours or not: what cannot be canceled takes its time."""
        self.has_slot = True
        self.returns = 0  # of the same job, while this attempt runs on
        self._handler = handler
        self._holder = holder
        self._loop = asyncio.get_running_loop()
        self._outbox = Outbox(wake=self._woken)
        self._reporter: Reporter | None = None
        self._task: asyncio.Task[None] | None = None  # the async handler, or what waits for the farm after it
        self._over: asyncio.Event | None = None
        self._is_finishing = False
        self._is_over = False
        self._lost_because = ""
        self._is_note_due = False
        self._outcome: JobResult | None = None

    def start(self) -> None:
        """Run the handler, of a job that must not run twice once its lease is confirmed: until then another may get
        it."""
        self._started_s = time.monotonic()
        self._say(logging.INFO, "%s: attempt %s", self.claimed, self.claimed.attempt)
        self._span = observing.span_of(self.claimed)
        self._holder.board.began(self.claimed, self._outbox)
        self._lease = self._holder.heartbeats.keep(self.claimed, outbox=self._outbox, on_lost=self.stop)
        if self.claimed.retry_when_lost:
            self._begin()
        else:
            self._lease.on_confirmed = self._begin

    def stop(self, reason: str) -> None:
        """The job is not ours any more: an async handler is canceled, a plain one meets JobStopped."""
        if self._is_finishing or self._outbox.stopped:
            return
        self._lost_because = LOST.get(reason, reason)
        self._say(logging.WARNING, "%s is stopped: %s", self.claimed, self._lost_because)
        self._halt()

    def beat_now(self) -> None:
        self._holder.heartbeats.beat(self._lease)

    async def give_back(self) -> None:
        """Stop the handler and release the job, so that another worker gets it at once.

        A job whose finish is on its way is not released: then this waits for the farm's answer.
        """
        if self._is_finishing:
            self._over = self._over or asyncio.Event()
            await self._over.wait()
            return
        self._say(logging.INFO, "%s: given back", self.claimed)
        self._halt()
        if self._outbox.checkpoint is not None:
            await self._reporting().last_checkpoint()
        await give_back(self.claimed, farm=self._holder.farm)

    def answered(self, error: WorkerError | None) -> None:
        """The farm has how the attempt ended, or why not."""
        outcome = self._outcome
        assert outcome is not None
        if error is None:
            self._end("success" if outcome.success else "suspended" if outcome.wait else "failed")
        elif not isinstance(error, Refused):
            self._holder.fail(error)
        elif error.is_lease_lost:
            self._lost_because = error.why_lost
            self._end("stopped")
        else:
            self._task = self._holder.tasks.start(self._finish_refused(outcome, error))

    def _begin(self) -> None:
        farm, confirmed = self._holder.farm, lambda: self._reporting().confirmed()
        asking = Asking(claimed=self.claimed, farm=farm, outbox=self._outbox, on_lost=self.stop, loop=self._loop)
        stopping = self._holder.stopping
        job = Job(self.claimed, outbox=self._outbox, confirmed=confirmed, stopping=stopping, asking=asking)
        context = self._holder.context.copy()  # not of the job that ended
        context.run(observing.log_as, self.claimed)
        context.run(self._span.enter)
        self.runs_on = True
        if is_async(self._handler):
            self._task = self._holder.tasks.start(self._run_async(job), context=context)
        else:
            call = functools.partial(context.run, perform, self._handler, job)
            self._holder.threads.start(call, self._performed, name=f"job {self.claimed.id}")

    async def _run_async(self, job: Job) -> None:
        outcome = None
        try:
            outcome = await perform_async(self._handler, job, self._outbox, run_by=self._holder.run_by)
        finally:
            self._task = None
            self._performed(outcome)

    def _performed(self, outcome: JobResult | None) -> None:
        """The handler has come to its end; None: it was canceled."""
        self.runs_on = False
        self._holder.board.ended(self.claimed)
        if outcome is None or self._outbox.stopped:
            self._end("stopped")
        elif self._reporter is None and not self._outbox.has_unsent:
            self._hand_in(outcome)
        else:
            self._task = self._holder.tasks.start(self._hand_in_confirmed(outcome))

    async def _hand_in_confirmed(self, outcome: JobResult) -> None:
        """Hand it in once the farm has all text and files: what it refused makes a failure of a success."""
        self._outbox.flush()
        try:
            await self._reporting().confirmed()
        except Failed as error:
            if not outcome.has_failed:
                outcome = failure(str(error), retryable=error.retryable)
        self._task = None
        if self._outbox.stopped:
            self._end("stopped")
        else:
            self._hand_in(outcome)

    def _hand_in(self, outcome: JobResult) -> None:
        self._is_finishing = True
        if outcome.size <= LONG:  # a longer one may be on its way for minutes
            self._holder.heartbeats.drop(self._lease)
        if self._outbox.is_released:
            self._task = self._holder.tasks.start(self._release())
            return
        self._outcome = outcome
        if outcome.has_failed:
            self._say(logging.WARNING, "%s failed: %s", self.claimed, observing.last_line(outcome.error))
        took_s = time.monotonic() - self._started_s
        if self.claimed.is_shared:
            outcome.ran_s = took_s
        self._holder.hand_in(self, outcome, took_s)

    async def _release(self) -> None:
        self._say(logging.INFO, "%s: given back by its handler", self.claimed)
        await give_back(self.claimed, farm=self._holder.farm)
        self._end("stopped")

    async def _finish_refused(self, outcome: JobResult, refusal: Refused) -> None:
        """The farm will not take this result (too large, for instance), or wait: report that as a failure, once."""
        self._say(logging.ERROR, "%s: the farm refused how it ended: %s", self.claimed, refusal)
        if not outcome.has_failed:
            subject = "result" if outcome.success else "wait"
            refused = failure(f"The farm refused the {subject}: {refusal}", retryable=False)
            call = protocol.finish([(self.claimed, refused)], claim_next=0)
            with contextlib.suppress(Refused):
                await self._holder.farm.insist(call, heartbeat_s=self.claimed.heartbeat_s)
        self._end("failed")

    def _end(self, ending: Ending) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._holder.heartbeats.drop(self._lease)
        if self._reporter is not None:
            self._reporter.end()
        if self._over is not None:
            self._over.set()
        self._span.ended(ending, error=self._outcome.error if self._outcome else "")
        self._holder.board.endings[ending] += 1
        why = f" ({self._lost_because})" if ending == "stopped" and self._lost_because else ""
        took_s = time.monotonic() - self._started_s
        self._say(logging.INFO, "%s: %s after %.1f s%s", self.claimed, ending, took_s, why)
        self._holder.let_go(self)

    def _halt(self) -> None:
        self._outbox.stop()
        self._holder.heartbeats.drop(self._lease)
        if self._reporter is not None:
            self._reporter.end()
        if not self.runs_on and self._task is None:  # it waited for its lease to be confirmed
            self._holder.board.ended(self.claimed)
            self._end("stopped")
        elif self.runs_on:
            if self._task is not None:
                self._task.cancel()
            self._loop.call_later(STUCK_S, self._note_running_on)

    def _note_running_on(self) -> None:
        """A stopped handler keeps its slot until it has come to its end, however long that takes."""
        if self.runs_on:
            self._holder.board.stuck_on(self.claimed.id)
            log.warning("%s was stopped, but its handler runs on", self.claimed)
            self._loop.call_later(STILL_RUNS_S, self._note_running_on)

    def _woken(self) -> None:
        """Called by handlers, in whatever thread they run; many calls make one note."""
        if self._is_note_due:
            return
        self._is_note_due = True
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody will send this any more
            self._loop.call_soon_threadsafe(self._take_note)

    def _take_note(self) -> None:
        self._is_note_due = False  # before reading: what is written from here on makes a note of its own
        if self._outbox.stopped or self._is_over:
            return
        if self._outbox.has_unsent:
            self._reporting().wake()
        if self._outbox.has_progress and not self._is_finishing:
            self._holder.heartbeats.report(self._lease)

    def _reporting(self) -> Reporter:
        if self._reporter is None:
            self._reporter = Reporter(self._lease, self._holder.heartbeats)
        return self._reporter

    def _say(self, level: int, message: str, *arguments: object) -> None:
        if log.isEnabledFor(level):
            with observing.logging_as(self.claimed):
                log.log(level, message, *arguments)


async def give_back(claimed: ClaimedJob, *, farm: Farm) -> None:
    """Release a job. A lease that is lost already is fine; raises Unauthorized."""
    call = Call(verb="release", job=claimed.id, body={"lease": claimed.lease})
    with contextlib.suppress(Refused):
        await farm.insist(call, heartbeat_s=claimed.heartbeat_s)


async def unclaim(jobs: Sequence[ClaimedJob], *, farm: Farm) -> None:
    """Give back jobs that were not begun; raises Unauthorized. What the farm refuses goes back by itself."""
    with contextlib.suppress(Refused):
        call = Call(verb="unclaim", body={"jobs": [{"id": job.id, "lease": job.lease} for job in jobs]})
        await farm.insist(call, heartbeat_s=min(job.heartbeat_s for job in jobs))
