"""How far the head of a queue's index has been taken: where the claims of one process begin to look (docs/adr/0036).

A mark is a hint and never the truth. What it hides is found by the next sweep, a claim without marks; what it saves is
reading index entries of jobs that were taken long ago, which a snapshot that somebody holds open keeps from being
cleaned up.
"""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

MARGIN_S: Final = 1.0  # what became due this lately is looked at in any case: it may be committed late
SWEEP_S: Final = 1.0  # a queue is claimed from without marks this often, if there are claims at all
SHARE: Final = 0.1  # of the time that claims without marks may take, where they have become slow
SAVED_S: Final = 1.0  # as much of that share as is kept for later: an idle farm need not ration anything
PRIORITIES: Final = 8  # marks of a queue; each is one more stretch to look at
LOWEST, HIGHEST = -32767, 32767  # priorities: whatever the column can hold
EVER: Final = datetime(1, 1, 1, tzinfo=UTC)  # before all that can be due


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Priorities `low` to `high` of a queue, from the moment `since` on."""

    queue: str
    low: int
    high: int
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one claim looks at. `is_sweep`: one queue at least as a whole; `is_whole`: all of them."""

    stretches: tuple[Stretch, ...]
    versions: dict[str, int]
    is_sweep: bool
    is_whole: bool


@dataclass(slots=True, eq=False)
class _Queue:
    since: dict[int, datetime] = field(default_factory=dict)  # by priority; the one used last stands last
    version: int = 0  # a claim that began before the last sweep has nothing to say about marks any more
    sweep_at_s: float = 0.0


class Marks:
    """The marks of one process. All methods may be called from any thread; `now_s` is a clock that only moves on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, _Queue] = {}
        self._saved_s = SAVED_S
        self._saved_at_s: float | None = None

    def look(self, queues: Sequence[str], *, now_s: float) -> Look:
        """Where a claim from these queues is to look now: behind the marks, or everywhere when a sweep is due."""
        with self._lock:
            self._save(now_s)
            known = [(name, self._queues.setdefault(name, _Queue())) for name in queues]
            return _look(known, [queue for _, queue in known if self._is_to_sweep(queue, now_s)], now_s)

    def everywhere(self, queues: Sequence[str], *, now_s: float) -> Look | None:
        """Where to look when a claim behind the marks found nothing; None while that would take too much time."""
        with self._lock:
            self._save(now_s)
            known = [(name, self._queues.setdefault(name, _Queue())) for name in queues]
            return _look(known, [queue for _, queue in known], now_s) if self._saved_s > 0 else None

    def glance(self, *, now_s: float) -> tuple[Stretch, ...]:
        """Where to look for whether there is anything: everywhere (nothing is given), or while that is too slow, behind
        the marks. It moves none of them. Say with `spent` how long a look everywhere lasted.
        """
        with self._lock:
            self._save(now_s)
            if self._saved_s > 0:
                return ()
            known = [(name, queue.since) for name, queue in self._queues.items() if queue.since]
            return tuple(stretch for name, since in known for stretch in _stretches(name, since))

    def spent(self, took_s: float) -> None:
        """So long did a glance everywhere take."""
        with self._lock:
            self._spend(took_s)

    def took(self, look: Look, taken: Iterable[tuple[str, int, datetime]], *, took_s: float) -> None:
        """Note what a claim that looked so, and lasted so long, took: (queue, priority, run_at) in its order."""
        with self._lock:
            self._spend(took_s if look.is_sweep else 0)
            for name, priority, run_at in taken:
                if look.versions[name] == self._queues[name].version:
                    _put(self._queues[name].since, priority, run_at)

    def forget(self, queues: Iterable[str] | None = None) -> None:
        """Something became due behind the marks of these queues, or of all (None): the next claim looks everywhere."""
        with self._lock:
            for name in self._queues.keys() & (self._queues if queues is None else set(queues)):
                self._queues[name].since.clear()
                self._queues[name].version += 1

    def _is_to_sweep(self, queue: _Queue, now_s: float) -> bool:
        return not queue.since or (queue.sweep_at_s <= now_s and self._saved_s > 0)

    def _spend(self, took_s: float) -> None:
        self._saved_s = max(
            -SAVED_S, self._saved_s - took_s
        )  # so that the next sweep is SAVED_S / SHARE away at most

    def _save(self, now_s: float) -> None:
        before_s = now_s if self._saved_at_s is None else self._saved_at_s
        self._saved_s = min(SAVED_S, self._saved_s + SHARE * max(0.0, now_s - before_s))
        self._saved_at_s = now_s


def _look(known: Sequence[tuple[str, _Queue]], swept: Sequence[_Queue], now_s: float) -> Look:
    """Look at some queues, of which those in `swept` are looked at as a whole."""
    stretches: list[Stretch] = []
    for name, queue in known:
        if queue in swept:
            queue.sweep_at_s = now_s + SWEEP_S
            queue.version += 1
            stretches.append(Stretch(queue=name, low=LOWEST, high=HIGHEST, since=EVER))
        else:
            stretches += _stretches(name, queue.since)
    return Look(
        stretches=tuple(stretches),
        versions={name: queue.version for name, queue in known},
        is_sweep=bool(swept),
        is_whole=len(swept) == len(known),
    )


def _put(since: dict[int, datetime], priority: int, run_at: datetime) -> None:
    since.pop(priority, None)
    since[priority] = run_at
    if len(since) > PRIORITIES:
        del since[next(iter(since))]


def _stretches(queue: str, since: dict[int, datetime]) -> Iterable[Stretch]:
    """Each priority that has a mark from there on, and what lies between them as a whole."""
    above = HIGHEST + 1
    for priority in sorted(since, reverse=True):
        if priority + 1 < above:
            yield Stretch(queue=queue, low=priority + 1, high=above - 1, since=EVER)
        yield Stretch(queue=queue, low=priority, high=priority, since=since[priority])
        above = priority
    if above > LOWEST:
        yield Stretch(queue=queue, low=LOWEST, high=above - 1, since=EVER)
