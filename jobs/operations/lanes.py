"""Keeping the lanes of waiting jobs (docs/adr/0112): marks that move on behind what was taken, and owners kept apart.

A mark that lags hides nothing and costs index entries to read. So each process tidies the lanes that it takes from, and
those of queues where it looked for more than there was; the janitor does for all others.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from jobs.operations import hooks
from jobs.queries import lanes
from postgres import statements, transactions
from scheduling.operations import in_batches

log = logging.getLogger(__name__)
OVERTAKEN: Final = (
    75  # by so many later ones a job is, since the marks of lanes of one priority lag; batches add theirs
)
FIRST: Final = 10  # jobs of a queue until its lanes are tidied for the first time, and counted
MOST: Final = 25  # where there are few
EVERY_S: Final = 1.0
AT_ONCE: Final = 50  # lanes in one statement, whose locks it holds to its end
MOVED: Final = 500  # jobs in one statement
KEPT: Final = 10_000  # lanes and queues that one process remembers; beyond it all are forgotten, and tidied a bit later


@dataclass(slots=True)
class _Queue:
    """What one process took of a queue since it tidied its lanes: how many jobs, and from which."""

    tidied_s: float
    most: int
    taken: int = 0
    lanes: set[int] = field(default_factory=set)


class Untidied:
    """What one process took of each queue since it tidied its lanes. `now_s` is a clock that only moves on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, _Queue] = {}

    def took(self, taken: Iterable[tuple[str, int]], *, now_s: float) -> list[int]:
        """Note a job for each of these pairs of a queue and a lane; the lanes that are to be tidied now."""
        ripe: set[int] = set()
        with self._lock:
            for queue, lane in taken:
                one = self._of(queue, now_s)
                one.taken += 1
                one.lanes.add(lane)
                if one.taken >= one.most or now_s - one.tidied_s >= EVERY_S:
                    ripe |= one.lanes
                    self._queues[queue] = _Queue(tidied_s=now_s, most=one.most)
        return sorted(ripe)

    def came_short(self, queues: Iterable[str], *, now_s: float) -> list[str]:
        """Of queues that had less than a claim would take, those whose lanes are all to be tidied now."""
        with self._lock:
            known = {queue: self._of(queue, now_s) for queue in queues}
            late = {queue: one.most for queue, one in known.items() if now_s - one.tidied_s >= EVERY_S}
            self._queues |= {queue: _Queue(tidied_s=now_s, most=most) for queue, most in late.items()}
        return list(late)

    def learn(self, awake: Mapping[str, int]) -> None:
        """How many lanes of these queues have something due: the marks of all of them lag by as many jobs as are taken
        until they are tidied."""
        with self._lock:
            for queue, count in awake.items():
                if queue in self._queues:
                    self._queues[queue].most = max(1, min(MOST, OVERTAKEN // max(1, count - 1)))

    def _of(self, queue: str, now_s: float) -> _Queue:
        if len(self._queues) > KEPT:
            self._queues.clear()
        return self._queues.setdefault(queue, _Queue(tidied_s=now_s, most=FIRST))


_UNTIDIED: Final = Untidied()


def after_claim(taken: Sequence[tuple[str, int]], *, queues: Sequence[str], is_short: bool) -> None:
    """Tidy what a claim that has been committed gives reason to: `taken` has queue and lane of each job, and it would
    have taken more of `queues` if `is_short`."""
    now_s = time.monotonic()
    if ripe := _UNTIDIED.took(taken, now_s=now_s):
        _UNTIDIED.learn({row.queue: row.awake for row in lanes.tidy(lanes=ripe, limit=AT_ONCE)})
    if is_short and (empty := _UNTIDIED.came_short(queues, now_s=now_s)):
        lanes.tidy(queues=empty, limit=AT_ONCE)


def tidy_all(*, between: Callable[[], None]) -> int:
    """Tidy every lane that is awake; how many were put to sleep. For the janitor, which is called back in `between`.
    One that cannot be tidied is passed over, with a line in the log."""
    asleep, after = 0, 0

    def step(limit: int) -> int:
        nonlocal asleep, after
        rows = lanes.tidy(after=after, limit=limit)
        asleep += sum(row.asleep is True for row in rows)
        after = rows[-1].lane_id if rows else after
        between()
        return len(rows)

    def pass_over(error: Exception) -> None:
        nonlocal after
        after = lanes.next_awake(after)
        log.error("The lane %d cannot be tidied", after, exc_info=error)

    in_batches(step, pass_over, size=AT_ONCE)
    return asleep


@transactions.retried
def part(*, owner_id: int) -> int:
    """Move what waits of this person and their groups in lanes of all owners, where queues keep owners apart by now:
    some of it, for a claim of their worker; how many jobs."""
    rows = lanes.lock_crowded(MOVED, owner_id=owner_id)
    move(rows)
    return len(rows)


@transactions.retried
def part_paused() -> bool:
    """Move what waits of paused owners where claims look to lanes where none does: some of it; whether that was all."""
    rows = lanes.lock_of_paused(MOVED)
    move(rows)
    return len(rows) < MOVED


def move(rows: Sequence[statements.Row]) -> None:
    """Move these locked jobs to where they belong, in the caller's transaction: rows of `queries.lanes`."""
    if rows:
        lanes.part([row.id for row in rows])
    hooks.available(*{row.queue for row in rows})
