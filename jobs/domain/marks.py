"""How far the head of a queue's index has been taken: where the claims of one process begin to look (docs/adr/0036).

A mark is a hint and never the truth. What it hides is found by the next sweep, a claim without marks; what it saves is
reading index entries of jobs that were taken long ago, which a snapshot that somebody holds open keeps from being
cleaned up.
"""

import functools
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple

MARGIN_S: Final = 1.0  # what became due this lately is looked at in any case: it may be committed late
SWEEP_S: Final = 1.0  # a queue is claimed from without marks this often, if there are claims at all
SHARE: Final = 0.1  # of the time that claims without marks may take, where they have become slow
SAVED_S: Final = 1.0  # as much of that share as is kept for later: an idle farm need not ration anything
PRIORITIES: Final = 8  # marks of a head; each is one more stretch to look at
HEADS: Final = 10_000  # some 4 MB; beyond it all are forgotten, which costs one look everywhere each
LOWEST, HIGHEST = -32767, 32767  # priorities: whatever the column can hold
EVER: Final = datetime(1, 1, 1, tzinfo=UTC)  # before all that can be due


class Head(NamedTuple):
    """Where an index begins: with all jobs of a queue, or with those of them that are one person's or one group's."""

    queue: str
    owner_id: int | None = None
    group_id: int | None = None


class Taken(NamedTuple):
    """A job that a claim took, and whose it is (for a claim that looked at what is somebody's)."""

    queue: str
    priority: int
    run_at: datetime
    owner_id: int | None = None
    group_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Priorities `low` to `high` of a queue, or of somebody's jobs in it, from the moment `since` on."""

    queue: str
    owner_id: int | None = None
    group_id: int | None = None
    low: int
    high: int
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one claim looks at; `owner_id`: of a worker that takes only this person's jobs, and those of their groups.

    `is_sweep`: one head at least as a whole, past its marks; `is_whole`: all of them.
    """

    owner_id: int | None
    stretches: tuple[Stretch, ...]
    versions: dict[Head, int]
    is_sweep: bool
    is_whole: bool


@dataclass(slots=True, eq=False)
class _Known:
    since: dict[int, datetime] = field(default_factory=dict)  # by priority; the one used last stands last
    version: int = 0  # a claim that began before the last sweep has nothing to say about marks any more
    sweep_at_s: float = 0.0


class Marks:
    """The marks of one process. All methods may be called from any thread; `now_s` is a clock that only moves on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heads: dict[Head, _Known] = {}
        self._groups: dict[int | None, set[int]] = {}  # of an owner, those whose jobs their workers took
        self._saved_s = SAVED_S
        self._saved_at_s: float | None = None

    def look(self, queues: Sequence[str], *, now_s: float, owner_id: int | None = None) -> Look:
        """Where a claim from these queues is to look now: behind the marks, or everywhere when a sweep is due.

        With `owner_id` it is a claim of that person's worker. Groups that are not known yet are not spoken of: their
        jobs are to be looked at as a whole.
        """
        with self._lock:
            self._save(now_s)
            known = self._known(queues, owner_id)
            swept = {head for head, one in known.items() if self._is_to_sweep(one, now_s)}
            return _look(known, swept, owner_id, now_s)

    def everywhere(self, queues: Sequence[str], *, now_s: float, owner_id: int | None = None) -> Look | None:
        """Where to look when a claim behind the marks found nothing; None while that would take too much time."""
        with self._lock:
            self._save(now_s)
            known = self._known(queues, owner_id)
            return _look(known, set(known), owner_id, now_s) if self._saved_s > 0 else None

    def glance(self, owners: Collection[int | None] = (None,), *, now_s: float) -> tuple[Stretch, ...]:
        """Where to look for whether there is anything for these people's workers, or (None) for those of everybody:
        everywhere (nothing is given), or while that is too slow, behind the marks. It moves none of them.

        Say with `spent` how long a look everywhere lasted.
        """
        with self._lock:
            self._save(now_s)
            if self._saved_s > 0:
                return ()
            whose: set[tuple[int | None, int | None]] = {(owner_id, None) for owner_id in owners}
            for owner_id in owners:
                whose |= {(None, group_id) for group_id in self._groups.get(owner_id, ())}
            known = [
                (head, one.since) for head, one in self._heads.items() if one.since and head[1:] in whose
            ]
            return tuple(stretch for head, since in known for stretch in _stretches(head, since))

    def spent(self, took_s: float) -> None:
        """So long did a glance everywhere take."""
        with self._lock:
            self._spend(took_s)

    def took(self, look: Look, taken: Iterable[Taken], *, took_s: float) -> None:
        """Note what a claim that looked so, and lasted so long, took, in its order."""
        with self._lock:
            self._spend(took_s if look.is_sweep else 0)
            for job in taken:
                for head in _heads_of(job, look.owner_id):
                    self._put(look, head, job)

    def forget(self, queues: Iterable[str] | None = None) -> None:
        """Something became due behind the marks of these queues, or of all (None): the next claim looks everywhere."""
        behind = None if queues is None else set(queues)
        with self._lock:
            for head, known in self._heads.items():
                if behind is None or head.queue in behind:
                    known.since.clear()
                    known.version += 1

    def _known(self, queues: Sequence[str], owner_id: int | None) -> dict[Head, _Known]:
        heads = [Head(queue, owner_id) for queue in queues]
        groups = self._groups.get(owner_id, ())
        heads += [Head(queue, None, group_id) for queue in queues for group_id in groups]
        if len(self._heads) + len(heads) > HEADS:
            self._heads.clear()
        return {head: self._heads.setdefault(head, _Known()) for head in heads}

    def _put(self, look: Look, head: Head, job: Taken) -> None:
        if head.group_id is not None:
            self._groups.setdefault(look.owner_id, set()).add(head.group_id)
        swept_at_s = self._saved_at_s or 0.0  # a group that was not known was looked at as a whole
        known = self._heads.setdefault(head, _Known(sweep_at_s=swept_at_s + SWEEP_S))
        if look.versions.get(head, known.version) == known.version:
            _put(known.since, job.priority, job.run_at)

    def _is_to_sweep(self, known: _Known, now_s: float) -> bool:
        return not known.since or (known.sweep_at_s <= now_s and self._saved_s > 0)

    def _spend(self, took_s: float) -> None:
        self._saved_s = max(
            -SAVED_S, self._saved_s - took_s
        )  # so that the next sweep is SAVED_S / SHARE away at most

    def _save(self, now_s: float) -> None:
        before_s = now_s if self._saved_at_s is None else self._saved_at_s
        self._saved_s = min(SAVED_S, self._saved_s + SHARE * max(0.0, now_s - before_s))
        self._saved_at_s = now_s


def _look(known: Mapping[Head, _Known], swept: Set[Head], owner_id: int | None, now_s: float) -> Look:
    """Look at some heads, of which those in `swept` are looked at as a whole."""
    is_sweep = any(known[head].since for head in swept)  # where nothing is known there is no other way
    stretches: list[Stretch] = []
    for head, one in known.items():
        if head in swept:
            one.sweep_at_s = now_s + SWEEP_S
            one.version += 1
            stretches += _stretches(head, {})
        else:
            stretches += _stretches(head, one.since)
    return Look(
        owner_id=owner_id,
        stretches=tuple(stretches),
        versions={head: one.version for head, one in known.items()},
        is_sweep=is_sweep,
        is_whole=len(swept) == len(known),
    )


def _heads_of(job: Taken, owner_id: int | None) -> Iterable[Head]:
    """The heads of this job among those that a claim for this owner, or (None) for everybody, looked at."""
    if owner_id is None or job.owner_id == owner_id:
        yield Head(job.queue, owner_id)
    if owner_id is not None and job.group_id is not None:
        yield Head(job.queue, None, job.group_id)


def _put(since: dict[int, datetime], priority: int, run_at: datetime) -> None:
    since.pop(priority, None)
    since[priority] = run_at
    if len(since) > PRIORITIES:
        del since[next(iter(since))]


def _stretches(head: Head, since: dict[int, datetime]) -> Iterable[Stretch]:
    """Each priority that has a mark from there on, and what lies between them as a whole."""
    of = functools.partial(Stretch, **head._asdict())
    above = HIGHEST + 1
    for priority in sorted(since, reverse=True):
        if priority + 1 < above:
            yield of(low=priority + 1, high=above - 1, since=EVER)
        yield of(low=priority, high=priority, since=since[priority])
        above = priority
    if above > LOWEST:
        yield of(low=LOWEST, high=above - 1, since=EVER)
