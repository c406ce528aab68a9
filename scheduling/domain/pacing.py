"""How much work a cluster keeps ready for its workers: as much as they do in a moment, however long it takes."""

from dataclasses import dataclass, field
from math import ceil

# Long enough that no worker waits for the next look into the queue (1 to 5 ms), short enough that what is more urgent
# waits no longer than this behind what was dispatched before it.
AHEAD_S = 0.05
MOST_PER_WORKER = 32
FIRST_PER_WORKER = 4


@dataclass(slots=True, kw_only=True)
class Pace:
    """Measures how fast `workers` take what is dispatched."""

    workers: int
    depth: int = field(init=False)
    _taken: int = field(init=False, default=0)
    _since: float | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.depth = FIRST_PER_WORKER * self.workers

    def room(self, *, waiting: int) -> int:
        """How many may be dispatched now, while so many still wait: none until half of them are taken."""
        return 0 if 2 * waiting > self.depth else self.depth - waiting

    def measure(self, *, taken: int, now: float, is_starved: bool = False) -> None:
        """So many were taken since the cluster began. `is_starved`: the workers had nothing left although there was
        more, so that it is the looks that take too long. `now` is of the same clock as that of `begin`."""
        least, most = self.workers, MOST_PER_WORKER * self.workers
        if is_starved:
            self.depth = min(2 * self.depth, most)
        elif self._since is not None and now > self._since and taken > self._taken:
            self.depth = max(least, min(ceil((taken - self._taken) / (now - self._since) * AHEAD_S), most))
        self._taken, self._since = taken, None

    def begin(self, *, now: float) -> None:
        """From now on there is something to take: the time before does not count."""
        self._since = now
