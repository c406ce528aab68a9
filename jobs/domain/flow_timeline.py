"""When the steps of a flow waited, ran and were suspended: a lane for each node of its picture."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Final, NamedTuple

from jobs.domain.flow_graph import Node, Place
from jobs.domain.swimlanes import Lane, Run, lane

PIECES: Final = 100  # of a lane that stands for many: what is less than so much of the whole time apart is one bar
MOST_BARS: Final = 2_000  # of all lanes
SUSPENDED: Final = "suspended"
OVER: Final = ("success", "failed", "timed_out", "in_progress")


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
