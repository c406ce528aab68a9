"""What the farm hears of held jobs: heartbeats, of which what is due together goes by one call; and of each that writes
something its text, its files and its checkpoints beside it, each in order."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from jobfarm_client.backoff import Backoff
from jobfarm_worker import protocol
from jobfarm_worker.errors import Failed, Refused, Unreachable
from jobfarm_worker.farm import Farm
from jobfarm_worker.outbox import Outbox, Progress
from jobfarm_worker.protocol import Call, ClaimedJob
from jobfarm_worker.tasks import Tasks, first

GAP_S = 0.2  # at most five reports of progress a second
CONFIRM_S = 0.2  # a job that ends within this, or writes something, needs no heartbeat to confirm its lease
FIRST_REPORT_S = CONFIRM_S  # until the first report of progress, which most short jobs then need not make
CHECKPOINT = "checkpoint"
log = logging.getLogger("jobfarm_worker")


@dataclass(slots=True, eq=False, kw_only=True)
class Lease:
    """The lease of a job that is held, from when on its next heartbeat is due, and what the last ones reported."""

    claimed: ClaimedJob
    outbox: Outbox
    on_lost: Callable[[str], None]
    due_s: float
    is_under_way: bool = False  # a heartbeat is under way
    is_confirmed: bool = False  # one was answered
    on_confirmed: Callable[[], None] | None = None
    not_before_s: float = 0.0
    backoff: Backoff | None = None


class Heartbeats:
    """Sends them every `heartbeat_every` seconds of our own clock, and whenever there is progress.

    The first one confirms a lease, soon after its job came, unless another call has named it by then; at once where the
    handler waits for it, since the job must not run twice. One that did not arrive is sent again soon, with backoff.
    """

    def __init__(self, farm: Farm, *, tasks: Tasks) -> None:
        self.farm = farm
        self.tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._leases: set[Lease] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._looks_at_s = 0.0  # uvloop's timers do not say it
        self._goes_together = True  # an older farm knows no call for several

    def keep(self, claimed: ClaimedJob, *, outbox: Outbox, on_lost: Callable[[str], None]) -> Lease:
        """Keep the lease of a job that begins, until it is dropped; `on_lost` gets why it is gone."""
        first_s = min(CONFIRM_S, claimed.heartbeat_s) if claimed.retry_when_lost else 0.0
        lease = Lease(claimed=claimed, outbox=outbox, on_lost=on_lost, due_s=self._loop.time() + first_s)
        self._leases.add(lease)
        self._look_at(lease.due_s)
        return lease

    def drop(self, lease: Lease) -> None:
        """Send no further heartbeat, and ignore the answer to one under way: the job ends."""
        self._leases.discard(lease)

    def report(self, lease: Lease) -> None:
        now_s = self._loop.time()
        self._advance(lease, now_s if lease.not_before_s else now_s + FIRST_REPORT_S)

    def named(self, lease: Lease) -> None:
        """Another call names the lease: then nothing else has to confirm it."""
        if (
            not (lease.not_before_s or lease.is_under_way or lease.outbox.has_progress)
            and lease.claimed.retry_when_lost
        ):
            lease.due_s = self._loop.time() + lease.claimed.heartbeat_s

    def beat_all(self) -> None:
        """Ask at once whether the leases are still ours, for instance after a reconnect."""
        for lease in self._leases:
            self.beat(lease)

    def beat(self, lease: Lease) -> None:
        self._advance(lease, self._loop.time())

    def _advance(self, lease: Lease, due_s: float) -> None:
        lease.due_s = min(lease.due_s, max(due_s, lease.not_before_s))
        self._look_at(lease.due_s)

    def _look_at(self, when_s: float) -> None:
        if self._timer is not None:
            if self._looks_at_s <= when_s:
                return
            self._timer.cancel()
        self._timer, self._looks_at_s = self._loop.call_at(when_s, self._look), when_s

    def _look(self) -> None:
        self._timer = None
        now_s = self._loop.time()
        waiting = [lease for lease in self._leases if not lease.is_under_way]
        if due := [lease for lease in waiting if lease.due_s <= now_s]:
            due += [lease for lease in waiting if lease.due_s > now_s and _may_go_along(lease, now_s)]
            for lease in due:
                lease.is_under_way = True
            for batch in [due] if self._goes_together else [[lease] for lease in due]:
                self.tasks.start(self._beat(batch))
        if later := [lease.due_s for lease in waiting if not lease.is_under_way]:
            self._look_at(min(later))

    async def _beat(self, leases: Sequence[Lease]) -> None:
        progress = [lease.outbox.take_progress() for lease in leases]
        try:
            verdicts = await self._answers(leases, progress)
        except (Refused, Unreachable) as error:
            if len(leases) > 1 and isinstance(error, Refused) and not error.is_for_now:
                self._goes_together = False
                error = Unreachable("The farm takes heartbeats one by one.")
            verdicts = [error] * len(leases)
        for lease, sent, verdict in zip(leases, progress, verdicts, strict=True):
            lease.is_under_way = False
            if lease in self._leases:
                self._answered(lease, sent, verdict)

    async def _answers(
        self, leases: Sequence[Lease], progress: Sequence[Progress | None]
    ) -> Sequence[Refused | Unreachable | None]:
        bodies = [_body(lease, sent) for lease, sent in zip(leases, progress, strict=True)]
        call = protocol.heartbeat([(lease.claimed, body) for lease, body in zip(leases, bodies, strict=True)])
        answer = await self.farm.call(call, heartbeat_s=min(lease.claimed.heartbeat_s for lease in leases))
        return protocol.verdicts(answer.get("jobs"), len(leases))

    def _answered(self, lease: Lease, sent: Progress | None, error: Refused | Unreachable | None) -> None:
        now_s = self._loop.time()
        if error is not None and (isinstance(error, Unreachable) or error.is_for_now):
            log.debug("%s: a heartbeat was not heard: %s", lease.claimed, error)
            if sent is not None:
                lease.outbox.give_back(sent)
            longest_s = protocol.longest_pause_s(lease.claimed.heartbeat_s)
            lease.backoff = lease.backoff or Backoff(rng=self.farm.rng, cap_s=longest_s)
            lease.due_s = now_s + lease.backoff.failed()
        else:
            lease.backoff, lease.not_before_s = None, now_s + GAP_S
            lease.due_s = max(lease.not_before_s, now_s + lease.claimed.heartbeat_s)
            if lease.outbox.has_progress:
                lease.due_s = lease.not_before_s
            if error is not None:
                self._refused(lease, error)
            else:
                lease.is_confirmed = True
                on_confirmed, lease.on_confirmed = lease.on_confirmed, None
                if on_confirmed is not None:
                    on_confirmed()
        self._look_at(lease.due_s)

    def _refused(self, lease: Lease, error: Refused) -> None:
        """Sending it again would not help: the lease is lost, or the heartbeat itself is at fault."""
        if error.is_lease_lost or not (lease.claimed.retry_when_lost or lease.is_confirmed):
            lease.on_lost(error.why_lost)
        else:
            log.error("%s: the farm refused a heartbeat: %s", lease.claimed, error)


def _may_go_along(lease: Lease, now_s: float) -> bool:
    """Whether this heartbeat, due soon, goes with others that are due now: then they are due together from there on."""
    early_s = lease.claimed.heartbeat_s / 4
    return 0 < lease.not_before_s <= now_s and lease.due_s - early_s <= now_s


def _body(lease: Lease, progress: Progress | None) -> dict[str, Any]:
    fields = {"progress": progress.fraction, "detail": progress.detail} if progress else {}
    return {"lease": lease.claimed.lease, **{name: value for name, value in fields.items() if value is not None}}


class Reporter:
    """The sending side of one held job that writes something."""

    def __init__(self, lease: Lease, heartbeats: Heartbeats) -> None:
        self._lease = lease
        self._claimed = lease.claimed
        self._outbox = lease.outbox
        self._heartbeats = heartbeats
        self._farm = heartbeats.farm
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
            self._sending[name] = self._heartbeats.tasks.start(work())

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
        self._heartbeats.named(self._lease)
        try:
            await sending
        except Refused as error:
            if error.is_lease_lost:
                self._lease.on_lost(error.why_lost)
            elif error.code != "output_gap" or error.details.get("next_seq") != self._seq + 1:
                self._trouble = self._trouble or f"The farm refused {subject}: {error}"
