"""How a worker gets jobs: one request at a time, repeated under its id until it is answered or too old; and how many it
keeps ready: as many as begin within a quarter of a second, by what the last ones took.

A lease that no call has named is good for one heartbeat interval, and its job may be canceled, or be wanted by somebody
idle: so what lies ready is worth little time, whatever the interval. One of a queue with a ceiling holds a place of it
and keeps others from theirs: it does not lie ready at all. A call takes some 10 ms: with 250 ms of work ready no slot
waits for one.
"""

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Sequence

from jobfarm_client.backoff import Backoff
from jobfarm_worker import protocol
from jobfarm_worker.errors import Refused, Unreachable
from jobfarm_worker.farm import Farm
from jobfarm_worker.options import Options
from jobfarm_worker.protocol import Call, ClaimedJob
from jobfarm_worker.tasks import first

MOST_CLAIMED = 100  # what a farm gives in one answer
AT_ONCE_S = 1.0  # an empty answer faster than this was no waiting
READY_S = 0.25
LONGEST_READY_S = 0.5  # a job that has not begun by then goes back: one before it turned out to be long
RECENT = 16  # jobs whose run times count
log = logging.getLogger("jobfarm_worker")


class Prefetching:
    """The run times of recent jobs, and what follows from them."""

    def __init__(self, *, concurrency: int, most: int) -> None:
        self._concurrency = concurrency
        self._most = most
        self._recent_s: deque[float] = deque(maxlen=RECENT)
        self._count = 0

    def note(self, took_s: float, *, may_wait: bool = True) -> None:
        """A job kept its slot for so many seconds; `may_wait`: others like it may lie ready meanwhile."""
        self._recent_s.append(took_s if may_wait else math.inf)
        self._count += 1

    def room(self, heartbeat_s: float) -> int:
        """How many jobs may lie ready besides those that run; 0 before the first has ended, and where they are long, or
        one of the recent ones may not wait.

        Twice as many as have ended at most, so that the first short one of a long kind takes little with it.
        """
        if not self._recent_s:
            return 0
        mean_s = max(sum(self._recent_s) / len(self._recent_s), 1e-6)
        begin = int(self._concurrency * min(READY_S, heartbeat_s / 8) / mean_s)
        return min(begin, self._most, 2 * self._count)


def longest_ready_s(heartbeat_s: float) -> float:
    """Seconds that a job lies ready at most, from the answer that brought it."""
    return min(LONGEST_READY_S, heartbeat_s / 4)


class Intake:
    """Jobs that are held and not begun, first in, first out: no call names their leases, so given back they were never
    claimed. What has not begun in time goes to `give_back`, whoever is at work."""

    def __init__(self, *, give_back: Callable[[Sequence[ClaimedJob]], None]) -> None:
        self._give_back = give_back
        self._loop = asyncio.get_running_loop()
        self._ready: deque[tuple[float, ClaimedJob]] = deque()  # by when each is to begin
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._ready)

    def put(self, jobs: Sequence[ClaimedJob]) -> None:
        now_s = self._loop.time()
        self._ready.extend((now_s + longest_ready_s(job.heartbeat_s), job) for job in jobs)
        self._watch()

    def next(self) -> ClaimedJob | None:
        """The job that waited longest, to begin now; None if there is none."""
        self._return_late()  # a handler that blocked the loop held up the timer too
        return self._ready.popleft()[1] if self._ready else None

    def drop(self, job: int, fence: float) -> bool:
        """Forget this claim of a job, which was taken from us: it never begins. Whether it was here."""
        kept = [entry for entry in self._ready if entry[1].id != job or entry[1].fence > fence]
        was_here = len(kept) < len(self._ready)
        self._ready = deque(kept)
        return was_here

    def return_those(self, are_meant: Callable[[ClaimedJob], bool]) -> None:
        returned = [job for _, job in self._ready if are_meant(job)]
        if returned:
            self._ready = deque(entry for entry in self._ready if not are_meant(entry[1]))
            self._give_back(returned)

    def return_all(self) -> None:
        self.return_those(lambda _: True)

    def _return_late(self) -> None:
        now_s, late = self._loop.time(), []
        while self._ready and self._ready[0][0] <= now_s:
            late.append(self._ready.popleft()[1])
        if late:
            self._give_back(late)

    def _watch(self) -> None:
        if self._timer is None and self._ready:
            self._timer = self._loop.call_at(self._ready[0][0], self._look)

    def _look(self) -> None:
        self._timer = None
        self._return_late()
        self._watch()


class Empties:
    """How long to pause after a claim: not at all, unless two in a row brought nothing and did not wait for it.

    Somebody else may have been faster once. A second one is a farm or a proxy that does not know how to wait.
    """

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._in_a_row = 0

    def pause_s(self, *, claimed_count: int, took_s: float) -> float:
        """The pause after a claim that brought so many jobs and took so long."""
        if claimed_count or took_s >= AT_ONCE_S:
            self._in_a_row = 0
            self._backoff.succeeded()
            return 0.0
        self._in_a_row += 1
        return self._backoff.failed() if self._in_a_row > 1 else 0.0


class Claims:
    """Claims jobs of the farm, and waits out the times when it does not answer."""

    def __init__(self, farm: Farm, *, options: Options, stop: asyncio.Event) -> None:
        self._farm = farm
        self._options = options
        self._stop = stop
        self._outages = Backoff(rng=farm.rng)
        self._empties = Empties(Backoff(rng=farm.rng, base_s=0.05, cap_s=1.0))
        self._request: Call | None = None
        self._request_failed_s = math.inf  # when this request failed first
        self._outage_s = math.inf  # when the last answer was followed by a failure

    async def claim(self, limit: int) -> list[ClaimedJob]:
        """Up to `limit` jobs, after having waited for some; none when there was nothing, or no answer yet.

        Raises Unauthorized, WrongServer, or Refused when the farm will not let this worker claim.
        """
        try:
            jobs = await self._farm.claim(self._repeated_or_new(limit), stop=self._stop)
        except (Unreachable, Refused) as error:
            if isinstance(error, Refused) and not error.is_for_now:
                raise
            await self._wait_out(error)
            return []
        self._request = None
        self._request_failed_s = self._outage_s = math.inf
        self._outages.succeeded()
        return jobs

    async def rest(self, *, claimed_count: int, took_s: float) -> None:
        """Pause after a claim, where it is better not to claim again at once."""
        await asyncio.sleep(self._empties.pause_s(claimed_count=claimed_count, took_s=took_s))

    def _repeated_or_new(self, limit: int) -> Call:
        """The request whose answer we lack; once it is a heartbeat interval old, what it took was taken back."""
        if self._request is None or _now_s() - self._request_failed_s > self._farm.heartbeat_s:
            self._request = protocol.claim(queues=self._options.queues, limit=min(limit, MOST_CLAIMED))
            self._request_failed_s = math.inf
        return self._request

    async def _wait_out(self, error: Unreachable | Refused) -> None:
        now_s = _now_s()
        self._request_failed_s = min(self._request_failed_s, now_s)
        self._outage_s = min(self._outage_s, now_s)
        pause_s = self._outages.failed(within_s=self._longest_pause_s(now_s))
        if isinstance(error, Refused):
            pause_s = max(pause_s, error.retry_after_s)
        log.warning("no work from %s, asking again in %.1f s: %s", self._options.url, pause_s, error)
        await first(self._stop.wait(), timeout_s=pause_s)

    def _longest_pause_s(self, now_s: float) -> float:
        """Short at first, when jobs may be waiting for us; not in a long outage, which is everybody's."""
        heartbeat_s = self._farm.heartbeat_s
        return protocol.longest_pause_s(heartbeat_s) if now_s - self._outage_s <= heartbeat_s else math.inf


def _now_s() -> float:
    return asyncio.get_running_loop().time()
