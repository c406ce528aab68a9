"""Heartbeats of all the jobs that a worker holds: what is due together goes by one call."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jobfarm_client.backoff import Backoff
from jobfarm_worker import protocol
from jobfarm_worker.errors import Refused, Unreachable
from jobfarm_worker.farm import Farm
from jobfarm_worker.outbox import Outbox, Progress
from jobfarm_worker.protocol import ClaimedJob
from jobfarm_worker.tasks import Tasks

GAP_S = 0.2  # at most five reports of progress a second
CONFIRM_S = 0.2  # a job that ends within this, or writes something, needs no heartbeat to confirm its lease
FIRST_REPORT_S = CONFIRM_S  # until the first report of progress, which most short jobs then need not make
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
        self._farm = farm
        self._tasks = tasks
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
                self._tasks.start(self._beat(batch))
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
        answer = await self._farm.call(call, heartbeat_s=min(lease.claimed.heartbeat_s for lease in leases))
        return protocol.verdicts(answer.get("jobs"), len(leases))

    def _answered(self, lease: Lease, sent: Progress | None, error: Refused | Unreachable | None) -> None:
        now_s = self._loop.time()
        if error is not None and (isinstance(error, Unreachable) or error.is_for_now):
            log.debug("%s: a heartbeat was not heard: %s", lease.claimed, error)
            if sent is not None:
                lease.outbox.give_back(sent)
            longest_s = protocol.longest_pause_s(lease.claimed.heartbeat_s)
            lease.backoff = lease.backoff or Backoff(rng=self._farm.rng, cap_s=longest_s)
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
