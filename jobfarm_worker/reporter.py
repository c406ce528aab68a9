"""Reports what one handler writes: heartbeats with progress, text, files. Each on a task of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Generic, TypeVar

from jobfarm_client.backoff import Backoff
from jobfarm_worker import pace
from jobfarm_worker.errors import Failed, Refused, Unreachable, WorkerError
from jobfarm_worker.farm import Farm
from jobfarm_worker.outbox import File, Outbox, Progress
from jobfarm_worker.protocol import Call, ClaimedJob

BEAT_GAP_S = 0.2  # at most five reports of progress a second
FIRST_BEAT_S = 0.05  # until the first report of progress; the first text is sent before it
CONFIRM_S = 0.2  # a job that ends within this, or writes something, needs no heartbeat to confirm its lease
T = TypeVar("T")
log = logging.getLogger("jobfarm_worker")


class Reporter:
    """The sending side of one held job; its tasks live as long as the `async with` block."""

    def __init__(
        self,
        claimed: ClaimedJob,
        *,
        farm: Farm,
        outbox: Outbox,
        on_lost: Callable[[str], None],
        on_fatal: Callable[[WorkerError], None],
    ) -> None:
        """`on_lost` gets why the lease is gone, `on_fatal` what ends the whole worker (a refused key)."""
        self._claimed = claimed
        self._farm = farm
        self._outbox = outbox
        self._on_lost = on_lost
        self._on_fatal = on_fatal
        self._seq = 0
        self._trouble = ""
        self._is_named = False
        self._is_ending = False
        self._flushing: asyncio.TimerHandle | None = None
        self.lease_confirmed = asyncio.Event()
        """The farm has answered a heartbeat: the lease is confirmed, and ours."""
        self._text: Lane[str] = Lane(take=lambda: outbox.take_text() or None, send=self._send_text)
        self._files: Lane[File] = Lane(take=outbox.take_file, send=self._send_file)
        self._beat_now = asyncio.Event()
        self._confirming: asyncio.TimerHandle | None = None
        self._first_beat: asyncio.TimerHandle | None = None
        self._is_beating = False
        self._tasks: list[asyncio.Task[None]] = []
        self.is_silent = True
        """Nothing was sent of what the handler wrote, and nothing is under way."""

    async def __aenter__(self) -> Reporter:
        """Tasks begin when there is something for them: a job of a millisecond has none."""
        self._confirming = asyncio.get_running_loop().call_later(self._confirm_after_s(), self._begin_beating)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def stop_beating(self) -> None:
        """Send no further heartbeat: the finish follows. An answer to one under way is ignored."""
        self._is_ending = True

    def end(self) -> None:
        """Send nothing more of this job, and give up what is under way."""
        self._is_ending = True
        for timer in (self._flushing, self._confirming, self._first_beat):
            if timer is not None:
                timer.cancel()
        for task in self._tasks:
            task.cancel()

    def wake(self) -> None:
        """There is something in the outbox (call on the loop's thread)."""
        self._wake_lanes()
        self._flush_in_time()
        if self._outbox.has_progress:
            self._beat_soon()

    def _wake_lanes(self) -> None:
        if self.is_silent and not self._is_ending:
            self.is_silent = False
            self._start(self._text.run())
            self._start(self._files.run())
        self._text.wake()
        self._files.wake()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work, name=f"job {self._claimed.id}"))

    def _flush_in_time(self) -> None:
        """See to it that text which the flush rule leaves lying is sent a second after it was written."""
        if self._flushing is None and not self._is_ending and (due_in_s := self._outbox.due_in_s) is not None:
            self._flushing = asyncio.get_running_loop().call_later(due_in_s, self._flush_aged)

    def _flush_aged(self) -> None:
        self._flushing = None
        due_in_s = self._outbox.due_in_s
        if due_in_s is not None and due_in_s <= 0:
            self._outbox.flush()
        else:  # what was old has gone, and younger text lies there
            self._flush_in_time()

    def _beat_soon(self) -> None:
        if self._is_beating:
            self.beat_now()
        elif self._first_beat is None and not self._is_ending:
            self._first_beat = asyncio.get_running_loop().call_later(FIRST_BEAT_S, self.beat_now)

    def beat_now(self) -> None:
        """Check at once whether the lease is still ours, for instance after a reconnect."""
        self._beat_now.set()
        self._begin_beating()

    def _begin_beating(self) -> None:
        if not (self._is_beating or self._is_ending):
            self._is_beating = True
            self._start(self._beat())

    async def confirmed(self) -> None:
        """Wait until the farm has all due text and every file; raises Failed when it refused one for good."""
        self._wake_lanes()
        for lane in (self._text, self._files):
            await lane.idle.wait()
        if self._trouble:
            raise Failed(self._trouble, retryable=False)

    async def _send_text(self, text: str) -> None:
        if self._trouble or self._outbox.stopped:
            return
        call = Call(
            verb="output", job=self._claimed.id, body={"lease": self._claimed.lease, "seq": self._seq, "text": text}
        )
        sending = self._farm.insist(call, heartbeat_s=self._claimed.heartbeat_s)
        await self._sent(sending, subject="output")
        self._seq += 1

    async def _send_file(self, file: File) -> None:
        if self._outbox.stopped:
            return
        await self._sent(self._farm.put(file, claimed=self._claimed), subject=f"the file {file.name}")

    async def _sent(self, sending: Awaitable[object], *, subject: str) -> None:
        """Await a call that must arrive. Note the first thing that the farm will never take."""
        self._is_named = True
        try:
            await sending
        except Refused as error:
            if error.is_lease_lost:
                self._on_lost(error.why_lost)
            elif not self._is_stored_already(error):
                self._trouble = self._trouble or f"The farm refused {subject}: {error}"
        except WorkerError as error:
            self._on_fatal(error)

    def _is_stored_already(self, error: Refused) -> bool:
        """A gap that expects the piece after this one: an answer of ours was lost, the text was not."""
        return error.code == "output_gap" and error.details.get("next_seq") == self._seq + 1

    async def _beat(self) -> None:
        """Keep the lease: every `heartbeat_every` seconds of our own clock, and whenever there is progress.

        The first one confirms it, soon after the job came, unless another call has named the lease by then.
        A heartbeat that did not arrive is sent again soon, with backoff, not one interval later.
        """
        is_due = self._beat_now.is_set() or not self._is_named
        self._beat_now.clear()
        while not self._is_ending:
            if is_due:
                await self._beat_until_received()
            await self._wait_for_beat(self._claimed.heartbeat_s)
            is_due = True

    def _confirm_after_s(self) -> float:
        """At once where the handler waits for it (the job must not run twice); else soon."""
        return min(CONFIRM_S, self._claimed.heartbeat_s) if self._claimed.retry_when_lost else 0.0

    async def _beat_until_received(self) -> None:
        backoff = Backoff(rng=self._farm.rng, cap_s=pace.pause_s(self._claimed.heartbeat_s))
        while not self._is_ending:
            if await self._beaten():
                break
            await asyncio.sleep(backoff.failed())
        await asyncio.sleep(BEAT_GAP_S)

    async def _beaten(self) -> bool:
        """Send one heartbeat with the latest progress; False when it should be sent again soon."""
        progress = self._outbox.take_progress()
        try:
            await self._farm.call(self._heartbeat(progress), heartbeat_s=self._claimed.heartbeat_s)
            self.lease_confirmed.set()
        except Unreachable as error:
            return self._missed(progress, error)
        except Refused as error:
            return self._missed(progress, error) if error.is_for_now else self._refused(error)
        except WorkerError as error:
            self._on_fatal(error)
        return True

    async def _wait_for_beat(self, patience_s: float) -> bool:
        """Wait until a heartbeat is wanted at once, for so long at most; whether one is."""
        try:
            async with asyncio.timeout(patience_s):
                return await self._beat_now.wait()
        except TimeoutError:
            return False
        finally:
            self._beat_now.clear()

    def _heartbeat(self, progress: Progress | None) -> Call:
        latest = progress or Progress(fraction=None, detail=None)
        fields = {"lease": self._claimed.lease, "progress": latest.fraction, "detail": latest.detail}
        body = {name: value for name, value in fields.items() if value is not None}
        return Call(verb="heartbeat", job=self._claimed.id, body=body)

    def _missed(self, progress: Progress | None, error: WorkerError) -> bool:
        log.debug("%s: a heartbeat was not heard: %s", self._claimed, error)
        if progress is not None:
            self._outbox.give_back(progress)
        return False

    def _refused(self, error: Refused) -> bool:
        """Sending it again would not help: the lease is lost, or the heartbeat itself is at fault."""
        if self._is_ending:
            return True  # overtaken by our own finish
        if error.is_lease_lost or not (self._claimed.retry_when_lost or self.lease_confirmed.is_set()):
            self._on_lost(error.why_lost)
        else:
            log.error("%s: the farm refused a heartbeat: %s", self._claimed, error)
        return True


class Lane(Generic[T]):
    """Sends what `take` yields, one after the other, whenever it was woken."""

    def __init__(self, *, take: Callable[[], T | None], send: Callable[[T], Awaitable[None]]) -> None:
        self._take = take
        self._send = send
        self._woken = asyncio.Event()
        self.idle = asyncio.Event()
        """Everything that was there at the last waking has been sent (or refused)."""
        self.idle.set()

    def wake(self) -> None:
        self._woken.set()
        self.idle.clear()

    async def run(self) -> None:
        """Send for ever; to be canceled."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            while (item := self._take()) is not None:
                await self._send(item)
            if not self._woken.is_set():
                self.idle.set()
