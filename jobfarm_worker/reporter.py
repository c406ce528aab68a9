"""Tells the farm what one handler says: heartbeats with progress, text, files. Each on a task of its own."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Generic, TypeVar

from jobfarm_worker.backoff import Backoff
from jobfarm_worker.errors import Failed, Refused, Unreachable, WorkerError
from jobfarm_worker.farm import Farm
from jobfarm_worker.outbox import File, Outbox, Progress
from jobfarm_worker.wire import Call, ClaimedJob

BEAT_GAP_S = 0.2  # at most five reports of progress a second
BEAT_CALL_S = 15.0
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
        """`on_lost` is told why the lease is gone, `on_fatal` what ends the whole worker (a refused key)."""
        self._claimed = claimed
        self._farm = farm
        self._outbox = outbox
        self._on_lost = on_lost
        self._on_fatal = on_fatal
        self._seq = 0
        self._trouble = ""
        self._text: Lane[str] = Lane(take=lambda: outbox.take_text() or None, send=self._send_text)
        self._files: Lane[File] = Lane(take=outbox.take_file, send=self._send_file)
        self._beat_now = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Reporter:
        work = (self._beat(), self._text.run(), self._files.run())
        self._tasks = [asyncio.create_task(each, name=f"job {self._claimed.id}") for each in work]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def wake(self) -> None:
        """There is something in the outbox (call on the loop's thread)."""
        self._text.wake()
        self._files.wake()
        if self._outbox.has_progress:
            self._beat_now.set()

    def beat_now(self) -> None:
        """Ask the farm at once whether the lease is still ours, for instance after a reconnect."""
        self._beat_now.set()

    async def confirmed(self) -> None:
        """Wait until the farm has all due text and every file; raises Failed when it refused one for good."""
        for lane in (self._text, self._files):
            lane.wake()
            await lane.idle.wait()
        if self._trouble:
            raise Failed(self._trouble, retryable=False)

    async def _send_text(self, text: str) -> None:
        if self._trouble or self._outbox.stopped:
            return
        call = Call(
            verb="output",
            job=self._claimed.id,
            body={"lease": self._claimed.lease, "seq": self._seq, "text": text},
        )
        await self._sent(self._farm.insist(call), what="output")
        self._seq += 1

    async def _send_file(self, file: File) -> None:
        if self._outbox.stopped:
            return
        putting = self._farm.put(file, job=self._claimed.id, lease=self._claimed.lease)
        await self._sent(putting, what=f"the file {file.name}")

    async def _sent(self, sending: Awaitable[object], *, what: str) -> None:
        """Await a call that must arrive. Note the first thing that the farm will never take."""
        try:
            await sending
        except Refused as error:
            if error.is_lease_lost:
                self._on_lost(str(error))
            elif not self._is_stored_already(error):
                self._trouble = self._trouble or f"The farm refused {what}: {error}"
        except WorkerError as error:
            self._on_fatal(error)

    def _is_stored_already(self, error: Refused) -> bool:
        """A gap that expects the piece after this one: an answer of ours was lost, the text was not."""
        return error.reason == "output_gap" and error.details.get("next_seq") == self._seq + 1

    async def _beat(self) -> None:
        """Keep the lease: every `heartbeat_every` seconds of our own clock, and whenever there is progress.

        A heartbeat that was not heard is sent again soon, with backoff, not one interval later.
        """
        backoff = Backoff(rng=random.SystemRandom(), cap_s=self._claimed.heartbeat_s / 2)
        while True:
            await self._wait_for_news()
            if await self._beaten():
                backoff.succeeded()
                await asyncio.sleep(BEAT_GAP_S)
            else:
                await asyncio.sleep(backoff.failed())
                self._beat_now.set()

    async def _beaten(self) -> bool:
        """Send one heartbeat with the latest progress; False when it should be sent again soon."""
        progress = self._outbox.take_progress()
        try:
            await self._farm.call(self._heartbeat(progress), timeout_s=BEAT_CALL_S)
        except Unreachable as error:
            return self._missed(progress, error)
        except Refused as error:
            return self._missed(progress, error) if error.is_for_now else self._refused(error)
        except WorkerError as error:
            self._on_fatal(error)
        return True

    async def _wait_for_news(self) -> None:
        try:
            async with asyncio.timeout(self._claimed.heartbeat_s):
                await self._beat_now.wait()
        except TimeoutError:
            return
        finally:
            self._beat_now.clear()

    def _heartbeat(self, progress: Progress | None) -> Call:
        told = progress or Progress(fraction=None, detail=None)
        fields = {"lease": self._claimed.lease, "progress": told.fraction, "detail": told.detail}
        body = {name: value for name, value in fields.items() if value is not None}
        return Call(verb="heartbeat", job=self._claimed.id, body=body)

    def _missed(self, progress: Progress | None, error: WorkerError) -> bool:
        log.debug("job %s: a heartbeat was not heard: %s", self._claimed.id, error)
        if progress is not None:
            self._outbox.give_back(progress)
        return False

    def _refused(self, error: Refused) -> bool:
        """Saying it again would not help: the lease is lost, or the heartbeat itself is at fault."""
        if error.is_lease_lost:
            self._on_lost(str(error))
        else:
            log.error("job %s: the farm refused a heartbeat: %s", self._claimed.id, error)
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
        """There may be something to send."""
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
