"""How much work a cluster keeps ready for its workers, and when it counts as frozen."""

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


SILENT_S = 8.0  # its sentinel reports once a second
STUCK_S = 3.0  # for so long the same picture must hold; one slow moment of the machine is no freeze
STARTING_S = 60.0  # Python, Django and the first connection, on a busy machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of a cluster at one moment.

    `seen_ago_s`: since its last report, None if there was none yet. `free`: workers that wait for a task.
    `waits`: a task lies in the queue although a worker was free all the time. `overdue`: a row that this cluster
    should have dispatched is seconds late, and nobody has it locked. `dispatched`: how many tasks it dispatched so far.
    """

    seen_ago_s: float | None
    free: int = 0
    waits: bool = False
    overdue: bool = False
    dispatched: int = 0


@dataclass(slots=True, kw_only=True)
class Watch:
    """Checks one cluster again and again for being frozen.

    An overdue dispatch is a freeze only while a worker is free: two long actions on two workers hold
    everything up, and nothing is wrong. Nor is a cluster frozen that goes on dispatching: on a machine that is too
    busy it is late with all it has, a worker is free at each check, and to start it anew would only add to the load.
    """

    started_at: float
    _since: float | None = field(default=None)
    _dispatched: int = field(default=0)

    def is_frozen(self, facts: Facts, *, now: float) -> str | None:
        """Why it is frozen, as the end of a sentence, or None. `now` and `started_at` are of one monotonic clock."""
        if facts.seen_ago_s is None:
            return "it never reported" if now - self.started_at > STARTING_S else None
        if facts.seen_ago_s > SILENT_S:
            return f"it has not reported for {facts.seen_ago_s:.0f} s"
        is_dispatching, self._dispatched = facts.dispatched != self._dispatched, facts.dispatched
        if not (facts.free and (facts.waits or (facts.overdue and not is_dispatching))):
            self._since = None
            return None
        self._since = now if self._since is None else self._since
        if now - self._since < STUCK_S:
            return None
        return "a dispatch is overdue while a worker is free"
