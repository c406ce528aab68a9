"""How many jobs a worker keeps ready: as many as begin within a quarter of a second, by what the last ones took.

A lease that no call has named is good for one heartbeat interval, and its job may be canceled, or be
wanted by somebody idle: so what lies ready is worth little time, whatever the interval. One of a queue with a ceiling
holds a place of it and keeps others from theirs: it does not lie ready at all. A call takes some 10 ms: with
250 ms of work ready no slot waits for one.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Sequence

from jobfarm_worker.protocol import ClaimedJob

MOST_READY = 200  # by default; what a farm gives in two answers
READY_S = 0.25
LONGEST_READY_S = 0.5  # a job that has not begun by then goes back: one before it turned out to be long
RECENT = 16  # jobs whose run times count


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
