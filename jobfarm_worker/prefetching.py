"""How many jobs a worker keeps ready: as many as begin within a quarter of a second, by what the last ones took.

Pure arithmetic. A lease that no call has named is good for one heartbeat interval, and its job may be canceled, or be
wanted by somebody idle: so what lies ready is worth little time, whatever the interval. One of a queue with a ceiling
holds a place of it and keeps others from theirs: it does not lie ready at all. A call takes some 10 ms: with
250 ms of work ready no slot waits for one.
"""

from __future__ import annotations

import math
from collections import deque

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
