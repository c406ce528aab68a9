"""Jobs that this worker holds and has not begun. No call names their leases: given back, they were never claimed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from jobfarm_worker.prefetching import longest_ready_s
from jobfarm_worker.protocol import ClaimedJob


class Intake:
    """First in, first out. What has not begun in time goes to `give_back`, whoever is at work."""

    def __init__(self, *, give_back: Callable[[Sequence[ClaimedJob]], None]) -> None:
        self._give_back = give_back
        self._loop = asyncio.get_running_loop()
        self._ready: deque[tuple[float, ClaimedJob]] = deque()  # by when each is to begin
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._ready)

    def put(self, jobs: Sequence[ClaimedJob]) -> None:
        """Keep jobs that came with an answer just now."""
        now_s = self._loop.time()
        self._ready.extend((now_s + longest_ready_s(job.heartbeat_s), job) for job in jobs)
        self._watch()

    def next(self) -> ClaimedJob | None:
        """The job that waited longest, to begin now; None if there is none."""
        self._return_late()  # a handler that blocked the loop held up the timer too
        return self._ready.popleft()[1] if self._ready else None

    def drop(self, job: int) -> bool:
        """Forget a job that was taken from us: it never begins. Whether it was here."""
        kept = [entry for entry in self._ready if entry[1].id != job]
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
