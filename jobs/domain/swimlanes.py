"""Attempts as bars on swimlanes, one a worker: where each is drawn. Attempts that overlap lie below each other."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

WIDTH: Final = 1000.0  # of a drawing
TRACK: Final = 10.0  # the height of a track
# Where in its track a bar lies, and how high it is: outcomes differ in shape, and not in colour alone.
_SHAPES: Final = {
    "in_progress": (2.0, 6.0), "success": (2.0, 6.0), "canceled": (4.0, 2.0), "released": (4.0, 2.0),
    "suspended": (4.0, 2.0),
}  # fmt: skip
_ALARMING: Final = (0.0, TRACK - 1.0)
SHORTEST: Final = 2.0  # that can still be seen and pointed at
MOST_TRACKS: Final = 8  # of a lane; what overlaps more lies on the last, and the page says how many


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One attempt, in seconds since the epoch. `ended_s` None: it runs."""

    job_id: int
    kind: str
    worker_id: int
    worker_name: str
    outcome: str
    began_s: float
    ended_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One attempt as it is drawn: from `x` on, `width` wide, on a track. `took_s` is all of its time."""

    run: Run
    x: float
    width: float
    track: int
    took_s: float

    @property
    def y(self) -> float:
        return self.track * TRACK + _SHAPES.get(self.run.outcome, _ALARMING)[0]

    @property
    def height(self) -> float:
        """Failures are as high as their track, what was given up is thin."""
        return _SHAPES.get(self.run.outcome, _ALARMING)[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One worker's attempts, the oldest first."""

    worker_id: int
    name: str
    bars: tuple[Bar, ...]
    hidden: int  # bars that lie below others, as more than MOST_TRACKS overlap

    @property
    def tracks(self) -> int:
        return max((bar.track for bar in self.bars), default=0) + 1

    @property
    def height(self) -> float:
        return self.tracks * TRACK


def lanes(runs: Iterable[Run], *, begin_s: float, end_s: float) -> list[Lane]:
    """Return a lane for each worker, by name. The drawing is as wide as `begin_s` to `end_s`; the rest is cut."""
    by_worker: dict[int, list[Run]] = {}
    for run in runs:
        by_worker.setdefault(run.worker_id, []).append(run)
    drawn = [_lane(theirs, begin_s=begin_s, end_s=end_s) for theirs in by_worker.values()]
    return sorted(drawn, key=lambda lane: (lane.name, lane.worker_id))


def _lane(runs: Sequence[Run], *, begin_s: float, end_s: float) -> Lane:
    ordered = sorted(runs, key=lambda run: (run.began_s, run.job_id))
    free_from: list[float] = []  # of each track
    bars: list[Bar] = []
    hidden = 0
    for run in ordered:
        track = _track(free_from, run.began_s)
        hidden += free_from[track] > run.began_s
        free_from[track] = max(free_from[track], end_s if run.ended_s is None else run.ended_s)
        bars.append(_bar(run, track, begin_s=begin_s, end_s=end_s))
    return Lane(worker_id=ordered[0].worker_id, name=ordered[-1].worker_name, bars=tuple(bars), hidden=hidden)


def _track(free_from: list[float], began_s: float) -> int:
    for track, free_s in enumerate(free_from):
        if free_s <= began_s:
            return track
    if len(free_from) < MOST_TRACKS:
        free_from.append(began_s)
    return len(free_from) - 1


def _bar(run: Run, track: int, *, begin_s: float, end_s: float) -> Bar:
    unit = WIDTH / max(end_s - begin_s, 1e-9)
    until_s = end_s if run.ended_s is None else run.ended_s
    x = min(max((run.began_s - begin_s) * unit, 0.0), WIDTH - SHORTEST)
    width = min(max((until_s - begin_s) * unit - x, SHORTEST), WIDTH - x)
    return Bar(run=run, x=round(x, 2), width=round(width, 2), track=track, took_s=max(until_s - run.began_s, 0.0))
