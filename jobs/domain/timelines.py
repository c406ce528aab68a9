"""Runs and waits as bars on a scale of time: of a job's attempts, of workers, and of the steps of a flow."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import Final, NamedTuple, Protocol

from jobs.domain import charts
from jobs.domain.flow_graph import Node, Place

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
PIECES: Final = 100  # of a lane that stands for many: what is less than so much of the whole time apart is one bar
MOST_BARS: Final = 2_000  # of all lanes
SUSPENDED: Final = "suspended"
OVER: Final = ("success", "failed", "timed_out", "in_progress")


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


class Piece(NamedTuple):
    """What one job did for a while. `ended_s` None: it does so still."""

    began_s: float
    ended_s: float | None
    outcome: str


def lanes(
    nodes: Sequence[Node], places: Sequence[Place], attempts: Mapping[int, Sequence[Piece]], *,
    begin_s: float, end_s: float,
) -> tuple[list[Lane], int]:  # fmt: skip
    """A lane for each node, with the ended `attempts` by job, the oldest first; and how many nodes are left out, since
    their bars are too many."""
    ended = {place.id: place.ended_s for place in places}
    drawn: list[Lane] = []
    bars = 0
    for node in nodes:
        runs = list(_runs(node, ended, attempts, (end_s - begin_s) / PIECES, end_s))
        bars += len(runs)
        if bars > MOST_BARS:
            break
        drawn.append(lane(node.first.id, node.label, runs, begin_s=begin_s, end_s=end_s, number=node.number))
    return drawn, len(nodes) - len(drawn)


def pieces(place: Place, ended: Mapping[int, float | None], attempts: Sequence[Piece]) -> Iterator[Piece]:
    """What the job of a place did, one after the other. `ended`: when each place has ended."""
    runs = [*attempts]
    if place.claimed_s is not None and place.status in OVER and (not runs or runs[-1].began_s < place.claimed_s):
        runs.append(Piece(place.claimed_s, place.ended_s, place.status))
    free_s, doing = _ready_s(place, ended, runs), "pending"
    for run in runs:
        if free_s is not None and free_s < run.began_s:
            yield Piece(free_s, run.began_s, doing)
        yield run._replace(outcome="ran") if run.outcome == SUSPENDED else run
        free_s, doing = run.ended_s, SUSPENDED if run.outcome == SUSPENDED else "pending"
    if place.status == "pending" and free_s is not None:
        yield Piece(free_s, None, doing)
    elif place.ended_s is not None and (not runs or (free_s is not None and free_s < place.ended_s)):
        yield Piece(min(free_s or place.ended_s, place.ended_s), place.ended_s, place.status)


def _ready_s(place: Place, ended: Mapping[int, float | None], runs: Sequence[Piece]) -> float | None:
    """When it had no other job to wait for; None while it has."""
    until_s = runs[0].began_s if runs else place.ended_s
    known = [ended.get(one, place.created_s) for one in place.after]
    if until_s is None:
        return None if None in known else max([place.created_s, *(one for one in known if one is not None)])
    return max([place.created_s, *(one for one in known if one is not None and one <= until_s)])


def _runs(
    node: Node, ended: Mapping[int, float | None], attempts: Mapping[int, Sequence[Piece]], gap_s: float, end_s: float
) -> Iterator[Run]:
    alike: dict[str, list[tuple[float, float, int]]] = defaultdict(list)
    for place in node.places:
        for began_s, ended_s, outcome in pieces(place, ended, attempts.get(place.id, ())):
            alike[outcome].append((began_s, end_s if ended_s is None else ended_s, place.id))
    for outcome, spans in alike.items():
        yield from _merged(sorted(spans), outcome, node.first.kind, gap_s=gap_s if node.number > 1 else -1)


def _merged(spans: Sequence[tuple[float, float, int]], outcome: str, kind: str, *, gap_s: float) -> Iterator[Run]:
    """Those that overlap, or are less than a gap apart, as one."""
    since_s, until_s, jobs = spans[0][0], spans[0][1], [spans[0][2]]
    for began_s, ended_s, job_id in [*spans[1:], (inf, inf, 0)]:
        if began_s > until_s + gap_s:
            number = len(set(jobs))
            yield Run(job_id=jobs[0], kind=kind, outcome=outcome, began_s=since_s, ended_s=until_s, number=number)
            since_s, until_s, jobs = began_s, ended_s, []
        until_s = max(until_s, ended_s)
        jobs.append(job_id)


class Ended(Protocol):
    number: int
    claimed_at: datetime
    ended_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One attempt: `bars` are the wait before it and its run. Not claimed yet, it has a wait alone."""

    waited_s: float
    ran_s: float | None
    bars: list[charts.Bar]


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """What the job's row says of its latest attempt, or of the wait for the next. `number` counts claims."""

    number: int
    claimed_at: datetime | None
    ended_at: datetime | None
    is_waiting: bool


def spans(attempts: Sequence[Ended], current: Current, *, submitted_at: datetime, now: datetime) -> dict[int, Span]:
    """Each attempt by its number, on the scale from the submission to the job's end, or to now.

    `attempts` are those in the history, the current one not among them unless it is over. Of a job that waits for
    another attempt, the wait has the next number.
    """
    end = current.ended_at or now
    pieces: dict[int, tuple[datetime, datetime, datetime | None]] = {}
    over = {attempt.number: attempt.ended_at for attempt in attempts} | {0: submitted_at}
    for attempt in attempts:
        free_since = _free_since(over, attempt.number, unless_known=attempt.claimed_at)
        pieces[attempt.number] = (free_since, attempt.claimed_at, attempt.ended_at)
    if current.is_waiting:
        pieces[current.number + 1] = (_free_since(over, current.number + 1, unless_known=end), end, None)
    elif current.claimed_at is not None and current.number not in pieces:
        free_since = _free_since(over, current.number, unless_known=current.claimed_at)
        pieces[current.number] = (free_since, current.claimed_at, end)
    return {
        number: _span(*moments, begin=submitted_at.timestamp(), end=end.timestamp())
        for number, moments in pieces.items()
    }


def _free_since(over: dict[int, datetime], number: int, *, unless_known: datetime) -> datetime:
    """When the attempt before this one was over: claims whose answer nobody got are in no history.

    Before the oldest attempt of a history that begins later than the job, that is not known.
    """
    before = max(earlier for earlier in over if earlier < number)
    is_known = before > 0 or number == 1 or len(over) == 1
    return over[before] if is_known else unless_known


def _span(free_since: datetime, claimed_at: datetime, ended_at: datetime | None, *, begin: float, end: float) -> Span:
    bars = [("wait", free_since.timestamp(), claimed_at.timestamp())]
    if ended_at is not None:
        bars.append(("run", claimed_at.timestamp(), ended_at.timestamp()))
    return Span(
        waited_s=max((claimed_at - free_since).total_seconds(), 0.0),
        ran_s=None if ended_at is None else max((ended_at - claimed_at).total_seconds(), 0.0),
        bars=charts.row(bars, begin=begin, end=end),
    )
