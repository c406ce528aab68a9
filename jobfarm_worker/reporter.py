"""Sends what one handler writes: its text, its files and its checkpoints beside it, each in order."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from jobfarm_worker.errors import Failed, Refused
from jobfarm_worker.farm import Farm
from jobfarm_worker.heartbeats import GAP_S
from jobfarm_worker.outbox import Outbox
from jobfarm_worker.protocol import Call, ClaimedJob
from jobfarm_worker.tasks import Tasks, first

CHECKPOINT = "checkpoint"


class Reporter:
    """The sending side of one held job that writes something."""

    def __init__(
        self,
        claimed: ClaimedJob,
        *,
        farm: Farm,
        outbox: Outbox,
        tasks: Tasks,
        on_lost: Callable[[str], None],
        on_named: Callable[[], None],
    ) -> None:
        """`on_lost` gets why the lease is gone; `on_named`: a call leaves that names it."""
        self._claimed = claimed
        self._farm = farm
        self._outbox = outbox
        self._tasks = tasks
        self._on_lost = on_lost
        self._on_named = on_named
        self._seq = 0
        self._trouble = ""
        self._is_over = False
        self._flushing: asyncio.TimerHandle | None = None
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._hurry = asyncio.Event()

    def end(self) -> None:
        """Send nothing more of this job, and give up what is under way, but for a checkpoint: it may arrive all the
        same, and must not do so after the next one."""
        self._is_over = True
        if self._flushing is not None:
            self._flushing.cancel()
        for name, task in self._sending.items():
            if name != CHECKPOINT:
                task.cancel()

    def wake(self) -> None:
        """There may be something in the outbox (call on the loop's thread)."""
        if self._outbox.has_due_text:
            self._send("text", self._send_texts)
        if self._outbox.has_files:
            self._send("files", self._send_files)
        if self._outbox.checkpoint is not None:
            self._send(CHECKPOINT, self._send_checkpoints)
        self._flush_in_time()

    async def confirmed(self) -> None:
        """Wait until the farm has all due text, every file and the checkpoint; raises Failed when it refused one for
        good."""
        self._hurry.set()
        self.wake()
        while sending := [task for task in self._sending.values() if not task.done()]:
            await asyncio.wait(sending)
        self._hurry.clear()
        if self._trouble:
            raise Failed(self._trouble, retryable=False)

    async def last_checkpoint(self) -> None:
        """Wait until the farm has the latest checkpoint, also once this has ended."""
        self._hurry.set()
        if (sending := self._sending.get(CHECKPOINT)) is not None:
            await asyncio.wait([sending])
        await self._send_checkpoints()

    def _send(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if not self._is_over and (name not in self._sending or self._sending[name].done()):
            self._sending[name] = self._tasks.start(work())

    def _flush_in_time(self) -> None:
        """See to it that text which the flush rule leaves lying is sent a second after it was written."""
        if self._flushing is None and not self._is_over and (due_in_s := self._outbox.due_in_s) is not None:
            self._flushing = asyncio.get_running_loop().call_later(due_in_s, self._flush_aged)

    def _flush_aged(self) -> None:
        self._flushing = None
        due_in_s = self._outbox.due_in_s
        if due_in_s is not None and due_in_s <= 0:
            self._outbox.flush()
        else:  # what was old has gone, and younger text lies there
            self._flush_in_time()

    async def _send_texts(self) -> None:
        lease = self._claimed.lease
        while text := self._outbox.take_text():
            if self._trouble or self._outbox.stopped:
                continue
            call = Call(verb="output", job=self._claimed.id, body={"lease": lease, "seq": self._seq, "text": text})
            await self._sent(self._farm.insist(call, heartbeat_s=self._claimed.heartbeat_s), subject="output")
            self._seq += 1

    async def _send_files(self) -> None:
        while (file := self._outbox.take_file()) is not None:
            if not self._outbox.stopped:
                await self._sent(self._farm.put(file, claimed=self._claimed), subject=f"the file {file.name}")

    async def _send_checkpoints(self) -> None:
        while (text := self._outbox.checkpoint) is not None:
            body = {"lease": self._claimed.lease, **json.loads(text)}
            call = Call(verb="checkpoint", job=self._claimed.id, body=body)
            await self._sent(self._farm.insist(call, heartbeat_s=self._claimed.heartbeat_s), subject="the checkpoint")
            self._outbox.kept(text)
            await first(self._hurry.wait(), timeout_s=GAP_S)

    async def _sent(self, sending: Awaitable[object], *, subject: str) -> None:
        """Await a call that must arrive. Note the first thing that the farm will never take.

        A gap that expects the piece after this one is none: an answer of ours was lost, the text was not.
        """
        self._on_named()
        try:
            await sending
        except Refused as error:
            if error.is_lease_lost:
                self._on_lost(error.why_lost)
            elif error.code != "output_gap" or error.details.get("next_seq") != self._seq + 1:
                self._trouble = self._trouble or f"The farm refused {subject}: {error}"
