"""One job from its claim to its end: run the handler, report, finish or give back."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from jobfarm_worker import logs, protocol, tracing
from jobfarm_worker.errors import Failed, Refused, Unreachable, WorkerError
from jobfarm_worker.farm import Farm
from jobfarm_worker.job import Job
from jobfarm_worker.outbox import Outbox
from jobfarm_worker.protocol import Call, ClaimedJob, JobResult
from jobfarm_worker.registry import Handler
from jobfarm_worker.reporter import Reporter
from jobfarm_worker.running import failure, is_async, perform
from jobfarm_worker.scoreboard import Ending, Scoreboard

STILL_RUNS_S = 30.0
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
        on_fatal: Callable[[WorkerError], None],
    ) -> None:
        self._claimed = claimed
        self._handler = handler
        self._farm = farm
        self._board = board
        self._loop = asyncio.get_running_loop()
        self._outbox = Outbox(wake=self._woken)
        self._reporter = Reporter(
            claimed, farm=farm, outbox=self._outbox, on_lost=self.stop, on_fatal=on_fatal
        )
        self._job = Job(claimed, outbox=self._outbox, confirmed=self._reporter.confirmed)
        self._stopped = asyncio.Event()
        self._running: asyncio.Task[JobResult] | None = None
        self._is_finishing = False
        self._is_over = asyncio.Event()
        self._lost_because = ""
        self._is_note_due = False

    async def run(self, *, claim_next: Callable[[], int]) -> list[ClaimedJob]:
        """Run the handler and finish the job; returns the jobs that came with the farm's answer.

        `claim_next` says, at the moment of finishing, how many are wanted. Returns when the handler has
        really ended, also for a job that was stopped: until then its slot is not free.
        """
        try:
            return await self._run(claim_next)
        finally:
            self._is_over.set()

    async def _run(self, claim_next: Callable[[], int]) -> list[ClaimedJob]:
        started_s = time.monotonic()
        with self._board.running(self._claimed), tracing.attempt(self._claimed) as attempt:
            async with self._reporter:
                outcome = await self._performed()
                ending, jobs = await self._ended(outcome, claim_next)
            attempt.ended(ending, error=outcome.error if outcome else "")
        self._board.count(ending)
        why = f" ({self._lost_because})" if ending == "stopped" and self._lost_because else ""
        log.info("%s: %s after %.1f s%s", self._claimed, ending, time.monotonic() - started_s, why)
        return jobs

    @property
    def heartbeat_s(self) -> float:
        """Seconds between heartbeats of this job."""
        return self._claimed.heartbeat_s

    def stop(self, reason: str) -> None:
        """The job is not ours any more: an async handler is canceled, a plain one meets JobStopped."""
        if self._is_finishing or self._outbox.stopped:
            return
        self._lost_because = reason
        with logs.about(self._claimed):
            log.warning("%s is stopped: %s", self._claimed, reason)
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
        self._stopped.set()
        self._reporter.end()
        if self._running is not None and is_async(self._handler):
            self._running.cancel()

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
        stop = asyncio.create_task(self._stopped.wait())
        try:
            await self._allowed_to_begin(stop)
            if self._outbox.stopped:
                return None
            self._running = asyncio.create_task(perform(self._handler, self._job), name=repr(self._job))
            await asyncio.wait({self._running, stop}, return_when=asyncio.FIRST_COMPLETED)
            if stop.done():
                await _wound_up(self._running, self._claimed)
                return None
            return await self._confirmed(self._running.result(), stop)
        finally:
            stop.cancel()
            if self._running is not None:
                self._running.cancel()

    async def _allowed_to_begin(self, stop: asyncio.Task[bool]) -> None:
        """A job that must not run twice begins once its lease is confirmed: until then another may get it."""
        if self._claimed.retry_when_lost:
            return
        confirmed = asyncio.create_task(self._reporter.lease_confirmed.wait())
        try:
            await asyncio.wait({confirmed, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            confirmed.cancel()

    async def _confirmed(self, outcome: JobResult, stop: asyncio.Task[bool]) -> JobResult | None:
        """The outcome, once the farm has all text and files: what it refused makes a failure of a success."""
        self._outbox.flush()
        confirmed = asyncio.create_task(self._reporter.confirmed())
        try:
            await asyncio.wait({confirmed, stop}, return_when=asyncio.FIRST_COMPLETED)
            if self._outbox.stopped:
                return None
            confirmed.result()
        except Failed as error:
            return failure(str(error), retryable=error.retryable) if outcome.success else outcome
        finally:
            confirmed.cancel()
        return outcome

    async def _ended(
        self, outcome: JobResult | None, claim_next: Callable[[], int]
    ) -> tuple[Ending, list[ClaimedJob]]:
        if outcome is None:
            return "stopped", []
        self._is_finishing = True
        self._reporter.stop_beating()
        ending: Ending = "success" if outcome.success else "failed"
        if not outcome.success:
            log.warning("%s failed: %s", self._claimed, _last_line(outcome.error))
        try:
            return ending, await self._finish(outcome, claim_next())
        except Refused as error:
            if error.is_lease_lost:
                self._lost_because = error.why_lost
                return "stopped", []
            return "failed", await self._finish_refused(outcome, error)

    async def _finish(self, outcome: JobResult, claim_next: int) -> list[ClaimedJob]:
        return await finish(self._claimed, outcome, farm=self._farm, claim_next=claim_next)

    async def _finish_refused(self, outcome: JobResult, refusal: Refused) -> list[ClaimedJob]:
        """The farm will not take this result (too large, for instance): report that as a failure, once."""
        log.error("%s: the farm refused how it ended: %s", self._claimed, refusal)
        if not outcome.success:
            return []
        error = f"The farm refused the result: {refusal}"
        with contextlib.suppress(Refused):
            await self._finish(failure(error, retryable=False), 0)
        return []


async def _wound_up(running: asyncio.Task[JobResult], claimed: ClaimedJob) -> None:
    """Wait for a stopped handler to come to its end, however long it takes."""
    while not running.done():
        await asyncio.wait({running}, timeout=STILL_RUNS_S)
        if not running.done():
            log.warning("%s was stopped, but its handler runs on", claimed)
    if not running.cancelled():
        running.exception()


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


def _last_line(error: str) -> str:
    return error.strip().rsplit("\n", maxsplit=1)[-1]
