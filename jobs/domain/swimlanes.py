"""Runs and waits as bars on the lanes of workers or steps: where each is drawn. What overlaps lies below each other."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

WIDTH: Final = 1000.0  # of a drawing
TRACK: Final = 10.0  # the height of a track
# Where in its track a bar lies, and how high it is: outcomes differ in shape, and not in colour alone.
_THIN, _USUAL = (4.0, 2.0), (2.0, 6.0)
_SHAPES: Final = {
    "in_progress": _USUAL, "success": _USUAL, "ran": _USUAL, "canceled": _THIN, "released": _THIN, "suspended": _THIN,
    "pending": (3.0, 4.0),
}  # fmt: skip
_ALARMING: Final = (0.0, TRACK - 1.0)
SHORTEST: Final = 2.0  # that can still be seen and pointed at
MOST_TRACKS: Final = 8  # of a lane; what overlaps more lies on the last, and the page says how many


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One attempt or one wait of a job, in seconds since the epoch. `ended_s` None: it goes on. With a `number` above 1
    it stands for so many of jobs that are alike."""

    job_id: int
    kind: str
    outcome: str
    began_s: float
    ended_s: float | None
    number: int = 1

    @property
    def title(self) -> str:
        return f"#{self.job_id} {self.kind}" if self.number == 1 else f"{self.kind} × {self.number:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A run as it is drawn: from `x` on, `width` wide, on a track. `took_s` is all of its time."""

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
    """What one worker or one step, or a `number` of steps that are alike, did: the oldest first."""

    id: int
    name: str
    bars: tuple[Bar, ...]
    hidden: int  # bars that lie below others, as more than MOST_TRACKS overlap
    number: int = 1

    @property
    def tracks(self) -> int:
        return max((bar.track for bar in self.bars), default=0) + 1

    @property
    def height(self) -> float:
        return self.tracks * TRACK


def lane(lane_id: int, name: str, runs: Iterable[Run], *, begin_s: float, end_s: float, number: int = 1) -> Lane:
    """Return a lane as wide as `begin_s` to `end_s`; the rest is cut."""
    free_from: list[float] = []  # of each track
    bars: list[Bar] = []
    hidden = 0
    for run in sorted(runs, key=lambda run: (run.began_s, run.job_id)):
        track = _track(free_from, run.began_s)
        hidden += free_from[track] > run.began_s
        free_from[track] = max(free_from[track], end_s if run.ended_s is None else run.ended_s)
        bars.append(_bar(run, track, begin_s=begin_s, end_s=end_s))
    return Lane(id=lane_id, name=name, bars=tuple(bars), hidden=hidden, number=number)


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
