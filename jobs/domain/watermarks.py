"""How far the head of a queue's index has been taken: where the claims of one process begin to scan (docs/adr/0036).

A watermark is a hint and never the truth. What it hides is found by the next sweep, a scan past the watermarks; what
it saves is reading index entries of jobs that were taken long ago, which a snapshot that somebody holds open keeps from
being cleaned up. A sweep reads them all. When they are so many that this takes long, it goes through them in slices of
due times, one with each claim, so that no claim is held up for longer than a slice takes.
"""

import math
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from jobs.domain.ranges import EVER, Head, IndexRange, Slice, behind

MARGIN_S: Final = 1.0  # what became due this lately is looked at in any case: it may be committed late
SWEEP_S: Final = 1.0  # a queue is claimed from without watermarks this often, if there are claims at all
SHARE: Final = 0.1  # of the time that scans past the watermarks may take, where they have become slow
SAVED_S: Final = 1.0  # as much of that share as is kept for later: an idle farm need not ration anything
PRIORITIES: Final = 8  # watermarks of a head; each is one more index range to scan
HEADS: Final = 10_000  # some 4 MB; beyond it all are forgotten, which costs one full scan each
SLOW_S: Final = 0.03  # full scans that take this long are taken in slices from then on: some 200,000 dead entries
SLOW_SCANS: Final = 3  # in a row: one may have met a busy machine
QUICK_S: Final = 0.005  # a full scan that took no longer may hold up jobs that were found already
SLICE_S: Final = 0.01  # what a slice may take; the next is made narrower or wider by what this one took
NARROWEST_S: Final = 10.0  # of due times
MOST_SLICES: Final = 64  # of a pass; the last takes all that is left, however long that is


class Taken(NamedTuple):
    """A job that a claim took, and whose it is (for a claim that looked at what is somebody's)."""

    queue: str
    priority: int
    run_at: datetime
    owner_id: int | None = None
    group_id: int | None = None


@dataclass(slots=True, eq=False)
class Pass:
    """A full scan in slices, back from the watermarks; `piece` is the one that was given out last."""

    piece: Slice
    is_slow: bool = False
    slices: int = 1

    def go_on(self, width_s: float) -> None:
        """Go on to the slice before. After the last there is none, and this one is looked at again."""
        if not self.is_over:
            self.slices += 1
            is_last = self.slices == MOST_SLICES
            self.piece = Slice.before(self.piece.since, width_s=math.inf if is_last else width_s)

    @property
    def is_over(self) -> bool:
        """Whether this is the last slice: nothing can be due before it."""
        return self.piece.since == EVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What one claim scans; `owner_id`: of a worker that takes only this person's jobs, and those of their groups.

    `is_sweep`: one head at least past its watermarks; `is_whole`: after this, and those it goes on from, nothing is
    left.
    `passes`: of the heads that are looked at in slices.
    """

    owner_id: int | None
    ranges: tuple[IndexRange, ...]
    versions: dict[Head, int]
    is_sweep: bool
    is_whole: bool
    passes: Mapping[Head, Pass] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Known:
    since: dict[int, datetime] = field(default_factory=dict)  # by priority; the one used last stands last
    version: int = 0  # a claim that began before the last sweep has nothing to say about watermarks any more
    sweep_at_s: float = 0.0
    sweep: Pass | None = None  # that goes on with the next claim


class Watermarks:
    """The watermarks of one process. Methods may be called from any thread; `now_s` is a clock that only moves on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heads: dict[Head, _Known] = {}
        self._groups: dict[int | None, set[int]] = {}  # of an owner, those whose jobs their workers took
        self._saved_s = SAVED_S
        self._saved_at_s: float | None = None
        self._last_full_scan_s = 0.0  # everywhere, not in slices
        self._slow_scans = 0
        self._is_sliced = False
        self._width_s = NARROWEST_S

    def scan(self, queues: Sequence[str], *, now_s: float, owner_id: int | None = None) -> Scan:
        """Where a claim from these queues is to scan now: behind the watermarks, or everywhere when a sweep is due.

        With `owner_id` it is a claim of that person's worker. Groups that are not known yet are not spoken of: their
        jobs are to be looked at as a whole.
        """
        with self._lock:
            self._save(now_s)
            known = self._known(queues, owner_id)
            swept = {head for head, one in known.items() if self._is_to_sweep(one, now_s)}
            passes = self._sweeps(known, swept, now_s)
            is_whole = len(swept) == len(known) and not passes
            return _scan_of(known, swept, passes, owner_id, is_whole=is_whole)

    def full_scan(
        self,
        queues: Sequence[str],
        *,
        now_s: float,
        owner_id: int | None = None,
        after: Scan | None = None,
        has_some: bool = False,
    ) -> Scan | None:
        """Where to scan when a claim behind the watermarks found nothing, or less than it may take (`has_some`).

        None while that would take too much time. Where a full scan is slow it is a slice. `after`: the slice
        that has been looked at last.
        """
        with self._lock:
            self._save(now_s)
            is_slow = self._is_sliced or self._last_full_scan_s > QUICK_S
            if self._saved_s <= 0 or (has_some and is_slow):
                return None
            known = self._known(queues, owner_id)
            passes = self._go_on(known, after.passes if after else {}) if self._is_sliced else {}
            is_whole = all(one.is_over for one in passes.values())
            if is_whole:
                _swept(known.values(), now_s)
            return _scan_of(known, set(known), passes, owner_id, is_whole=is_whole)

    @property
    def hide_nothing(self) -> bool:
        """Whether a claim that gets less than it may take has scanned everywhere, also where it found something."""
        with self._lock:
            return self._saved_s > 0 and not self._is_sliced and self._last_full_scan_s <= QUICK_S

    def preview(self, owners: Collection[int | None] = (None,), *, now_s: float) -> tuple[IndexRange, ...]:
        """Where to scan for whether there is anything for these people's workers, or (None) for those of everybody:
        everywhere (nothing is given), or while that is too slow, behind the watermarks. It moves none of them.

        Say with `spent` how long a full scan lasted.
        """
        with self._lock:
            self._save(now_s)
            if self._saved_s > 0:
                return ()
            whose: set[tuple[int | None, int | None]] = {(owner_id, None) for owner_id in owners}
            for owner_id in owners:
                whose |= {(None, group_id) for group_id in self._groups.get(owner_id, ())}
            known = [(head, one.since) for head, one in self._heads.items() if one.since and head[1:] in whose]
            return tuple(index_range for head, since in known for index_range in behind(head, since))

    def spent(self, took_s: float) -> None:
        with self._lock:
            self._spend(took_s)

    def lasted(self, scan: Scan, took_s: float) -> None:
        """How long a claim with this scan took to find jobs."""
        if scan.is_sweep:
            with self._lock:
                self._spend(took_s)
                self._learn(scan, took_s)

    def took(self, scan: Scan, taken: Iterable[Taken]) -> None:
        """Note what a claim with this scan took, in its order. After its commit: should it fail, they wait where they
        were.
        """
        with self._lock:
            for job in taken:
                for head in _heads_of(job, scan.owner_id):
                    self._put(scan, head, job)

    def forget(self, queues: Iterable[str] | None = None) -> None:
        """Something became due behind the watermarks of these queues, or of all (None): the next claim full scan."""
        named = None if queues is None else set(queues)
        with self._lock:
            for head, known in self._heads.items():
                if named is None or head.queue in named:
                    known.since.clear()
                    known.version += 1

    def _known(self, queues: Sequence[str], owner_id: int | None) -> dict[Head, _Known]:
        heads = [Head(queue, owner_id) for queue in queues]
        groups = self._groups.get(owner_id, ())
        heads += [Head(queue, None, group_id) for queue in queues for group_id in groups]
        if len(self._heads) + len(heads) > HEADS:
            self._heads.clear()
        return {head: self._heads.setdefault(head, _Known()) for head in heads}

    def _put(self, scan: Scan, head: Head, job: Taken) -> None:
        if head.group_id is not None:
            self._groups.setdefault(scan.owner_id, set()).add(head.group_id)
        swept_at_s = self._saved_at_s or 0.0  # a group that was not known was looked at as a whole
        known = self._heads.setdefault(head, _Known(sweep_at_s=swept_at_s + SWEEP_S))
        if scan.versions.get(head, known.version) == known.version:
            _put(known.since, job.priority, job.run_at)

    def _sweeps(self, known: Mapping[Head, _Known], swept: Set[Head], now_s: float) -> dict[Head, Pass]:
        """The next slices of the sweeps that are due; none where a head is swept at once."""
        if not self._is_sliced:
            _swept([known[head] for head in swept], now_s)
            return {}
        begun = {head: one.sweep for head in swept if (one := known[head]).sweep and one.since}
        passes = self._go_on({head: known[head] for head in swept}, begun)
        for head in swept:
            known[head].sweep = going = passes.get(head)
            if going is None or going.is_over:
                _swept([known[head]], now_s)
        return passes

    def _go_on(self, known: Mapping[Head, _Known], begun: Mapping[Head, Pass | None]) -> dict[Head, Pass]:
        """A slice further for each pass, and the first slice for each head that has watermarks and no pass yet."""
        passes = {}
        for head, one in known.items():
            if going := begun.get(head):
                going.go_on(self._width_s)
                passes[head] = going
            elif one.since:
                self._width_s = NARROWEST_S
                passes[head] = Pass(Slice.before(max(one.since.values()), width_s=NARROWEST_S))
        return passes

    def _learn(self, scan: Scan, took_s: float) -> None:
        """Whether to go through piles in slices, and how wide the next is to be."""
        if not scan.passes:
            self._last_full_scan_s = took_s
            self._slow_scans = self._slow_scans + 1 if took_s > SLOW_S else 0
            self._is_sliced = self._slow_scans >= SLOW_SCANS
            return
        for one in scan.passes.values():
            one.is_slow |= took_s > SLICE_S / 2
        by = 4 if took_s < SLICE_S / 8 else 2 if took_s < SLICE_S / 2 else 1 if took_s <= SLICE_S else 0.5
        self._width_s = max(NARROWEST_S, self._width_s * by)
        if all(one.is_over and not one.is_slow for one in scan.passes.values()):
            self._is_sliced, self._slow_scans = False, 0

    def _is_to_sweep(self, known: _Known, now_s: float) -> bool:
        return not known.since or (known.sweep_at_s <= now_s and self._saved_s > 0)

    def _spend(self, took_s: float) -> None:
        self._saved_s = max(-SAVED_S, self._saved_s - took_s)  # so that the next sweep is SAVED_S / SHARE away at most

    def _save(self, now_s: float) -> None:
        before_s = now_s if self._saved_at_s is None else self._saved_at_s
        self._saved_s = min(SAVED_S, self._saved_s + SHARE * max(0.0, now_s - before_s))
        self._saved_at_s = now_s


def _scan_of(
    known: Mapping[Head, _Known], swept: Set[Head], passes: Mapping[Head, Pass], owner_id: int | None, *, is_whole: bool
) -> Scan:
    """Scan some heads, of which those in `swept` are scanned past their watermarks: a slice, or the whole."""
    ranges: list[IndexRange] = []
    for head, one in known.items():
        piece = passes[head].piece if head in passes else None
        one.version += head in swept
        ranges += behind(head, {} if head in swept and piece is None else one.since, piece)
    return Scan(
        owner_id=owner_id,
        ranges=tuple(ranges),
        versions={head: one.version for head, one in known.items()},
        is_sweep=any(known[head].since for head in swept),  # where nothing is known there is no other way
        is_whole=is_whole,
        passes=passes,
    )


def _swept(known: Iterable[_Known], now_s: float) -> None:
    """The next sweep of these is not due for a while."""
    for one in known:
        one.sweep, one.sweep_at_s = None, now_s + SWEEP_S


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
