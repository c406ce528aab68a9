"""One job from its claim to its end: run the handler, report, finish or give back."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from jobfarm_worker import logs, protocol, tracing
from jobfarm_worker.errors import LOST, Failed, Refused, Unreachable, WorkerError
from jobfarm_worker.farm import Farm
from jobfarm_worker.inputs import Inputs
from jobfarm_worker.job import Job
from jobfarm_worker.outbox import Outbox
from jobfarm_worker.protocol import Call, ClaimedJob, JobResult
from jobfarm_worker.registry import Handler
from jobfarm_worker.reporter import Reporter
from jobfarm_worker.running import failure, is_async, perform
from jobfarm_worker.scoreboard import Ending, Scoreboard
from jobfarm_worker.threads import Threads

STUCK_S = 5.0  # after which a handler that was stopped and runs on is reported
STILL_RUNS_S = 30.0
HandIn = Callable[[ClaimedJob, JobResult, float], Awaitable[None]]
"""Reports how an attempt ended that kept its slot for so many seconds; raises Refused or Unauthorized."""

log = logging.getLogger("jobfarm_worker")


class HeldJob:
    """The worker's side of one lease."""

    def __init__(
        self,
        claimed: ClaimedJob,
        *,
        handler: Handler,
        farm: Farm,
        board: Scoreboard,
        threads: Threads,
        on_fatal: Callable[[WorkerError], None],
    ) -> None:
        self._claimed = claimed
        self._handler = handler
        self._farm = farm
        self._board = board
        self._threads = threads
        self._loop = asyncio.get_running_loop()
        self._outbox = Outbox(wake=self._woken)
        self._reporter = Reporter(claimed, farm=farm, outbox=self._outbox, on_lost=self.stop, on_fatal=on_fatal)
        inputs = Inputs(claimed, farm=farm, outbox=self._outbox, on_lost=self.stop)
        self._job = Job(claimed, outbox=self._outbox, confirmed=self._reporter.confirmed, inputs=inputs)
        self._change = asyncio.Event()  # it was stopped, or what is waited for has come
        self._running: asyncio.Task[JobResult] | None = None
        self._is_finishing = False
        self._is_over = asyncio.Event()
        self._lost_because = ""
        self._is_note_due = False

    async def run(self, *, hand_in: HandIn) -> None:
        """Run the handler and hand in how it ended.

        Returns when the farm has that, and the handler has really ended, also for a job that was stopped.
        """
        try:
            await self._run(hand_in)
        finally:
            self._is_over.set()

    async def _run(self, hand_in: HandIn) -> None:
        started_s = time.monotonic()
        with tracing.attempt(self._claimed) as attempt:
            async with self._reporter:
                with self._board.running(self._claimed):
                    outcome = await self._performed()
                ending = await self._ended(outcome, hand_in, time.monotonic() - started_s)
            attempt.ended(ending, error=outcome.error if outcome else "")
        self._board.count(ending)
        why = f" ({self._lost_because})" if ending == "stopped" and self._lost_because else ""
        log.info("%s: %s after %.1f s%s", self._claimed, ending, time.monotonic() - started_s, why)

    @property
    def heartbeat_s(self) -> float:
        return self._claimed.heartbeat_s

    @property
    def runs_on(self) -> bool:
        """Whether its handler has not ended yet, be the job ours or not: what cannot be canceled takes its time."""
        return self._running is not None and not self._running.done()

    def stop(self, reason: str) -> None:
        """The job is not ours any more: an async handler is canceled, a plain one meets JobStopped."""
        if self._is_finishing or self._outbox.stopped:
            return
        self._lost_because = LOST.get(reason, reason)
        with logs.about(self._claimed):
            log.warning("%s is stopped: %s", self._claimed, self._lost_because)
        self._halt()

    def beat_now(self) -> None:
        """Ask at once whether the lease is still ours."""
        self._reporter.beat_now()

    async def give_back(self) -> None:
        """Stop the handler and release the job, so that another worker gets it at once.

        A job whose finish is on its way is not released: then this waits for the farm's answer.
        """
        if self._is_finishing:
            await self._is_over.wait()
            return
        with logs.about(self._claimed):
            log.info("%s: given back", self._claimed)
        self._halt()
        await give_back(self._claimed, farm=self._farm)

    def _halt(self) -> None:
        self._outbox.stop()
        self._board.stopped(self._claimed.id)
        self._change.set()
        self._reporter.end()
        if self._running is not None and is_async(self._handler):
            self._running.cancel()
        self._loop.call_later(STUCK_S, self._note_running_on)

    def _note_running_on(self) -> None:
        """A stopped handler keeps its slot until it has come to its end, however long that takes."""
        if self.runs_on:
            self._board.stuck_on(self._claimed.id)
            log.warning("%s was stopped, but its handler runs on", self._claimed)
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
        self._board.note(self._claimed.id, self._outbox.latest)
        self._reporter.wake()

    async def _performed(self) -> JobResult | None:
        """How the handler ended, with everything it wrote confirmed; None when the job was stopped."""
        if not (self._claimed.retry_when_lost or await self._is_ours()):
            return None
        performing = perform(self._handler, self._job, outbox=self._outbox, threads=self._threads)
        self._running = asyncio.create_task(performing, name=repr(self._job))
        try:
            outcome = await self._running
        except asyncio.CancelledError:  # of the handler by `_halt`, or of ourselves
            if not (self._outbox.stopped and self._running.cancelled()):
                raise
        return None if self._outbox.stopped else await self._confirmed(outcome)

    async def _is_ours(self) -> bool:
        """A job that must not run twice begins once its lease is confirmed: until then another may get it."""
        confirmed = asyncio.create_task(self._reporter.lease_confirmed.wait())
        try:
            await self._unless_stopped(confirmed)
        finally:
            confirmed.cancel()
        return not self._outbox.stopped

    async def _unless_stopped(self, task: asyncio.Task[Any]) -> None:
        task.add_done_callback(lambda _: self._change.set())
        while not (task.done() or self._outbox.stopped):
            self._change.clear()
            await self._change.wait()

    async def _confirmed(self, outcome: JobResult) -> JobResult | None:
        """The outcome, once the farm has all text and files: what it refused makes a failure of a success."""
        if self._reporter.is_silent and not self._outbox.has_unsent:
            return outcome
        self._outbox.flush()
        confirmed = asyncio.create_task(self._reporter.confirmed())
        try:
            await self._unless_stopped(confirmed)
            if self._outbox.stopped:
                return None
            confirmed.result()
        except Failed as error:
            return failure(str(error), retryable=error.retryable) if outcome.success else outcome
        finally:
            confirmed.cancel()
        return outcome

    async def _ended(self, outcome: JobResult | None, hand_in: HandIn, took_s: float) -> Ending:
        if outcome is None:
            return "stopped"
        self._is_finishing = True
        self._reporter.stop_beating()
        if not outcome.success:
            log.warning("%s failed: %s", self._claimed, _last_line(outcome.error))
        try:
            await hand_in(self._claimed, outcome, took_s)
        except Refused as error:
            if error.is_lease_lost:
                self._lost_because = error.why_lost
                return "stopped"
            await self._finish_refused(outcome, error)
            return "failed"
        return "success" if outcome.success else "failed"

    async def _finish_refused(self, outcome: JobResult, refusal: Refused) -> None:
        """The farm will not take this result (too large, for instance): report that as a failure, once."""
        log.error("%s: the farm refused how it ended: %s", self._claimed, refusal)
        if not outcome.success:
            return
        error = f"The farm refused the result: {refusal}"
        with contextlib.suppress(Refused):
            await finish(self._claimed, failure(error, retryable=False), farm=self._farm, claim_next=0)


async def finish(claimed: ClaimedJob, outcome: JobResult, *, farm: Farm, claim_next: int) -> list[ClaimedJob]:
    """Say how an attempt ended; returns the jobs that came with the answer. Raises Refused or Unauthorized."""
    call = protocol.finish(claimed, outcome, claim_next=claim_next)
    answer = await farm.insist(call, heartbeat_s=claimed.heartbeat_s)
    try:
        return protocol.claimed_jobs(answer)
    except Unreachable as error:
        log.warning("%s: %s", claimed, error)
        return []


async def give_back(claimed: ClaimedJob, *, farm: Farm) -> None:
    """Release a job. A lease that is lost already is fine; raises Unauthorized."""
    call = Call(verb="release", job=claimed.id, body={"lease": claimed.lease})
    with contextlib.suppress(Refused):
        await farm.insist(call, heartbeat_s=claimed.heartbeat_s)


async def unclaim(jobs: Sequence[ClaimedJob], *, farm: Farm) -> None:
    """Give back jobs that were not begun; raises Unauthorized. What the farm refuses goes back by itself."""
    with contextlib.suppress(Refused):
        await farm.insist(protocol.unclaim(jobs), heartbeat_s=min(job.heartbeat_s for job in jobs))


def _last_line(error: str) -> str:
    return error.strip().rsplit("\n", maxsplit=1)[-1]
