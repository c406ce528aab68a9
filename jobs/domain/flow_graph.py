"""A flow as a picture: jobs that are alike folded into one, in columns, and the way that took longest.

Where its nodes stand and its lines bend is found by fast-sugiyama (docs/adr/0136).
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Final, TypeAlias, cast

from fast_sugiyama import from_edges

Spot: TypeAlias = tuple[float, float]  # column, row
Edge: TypeAlias = tuple[int, int]
_Part: TypeAlias = tuple[list[tuple[int, tuple[float, float]]], float, float, list[Edge]]  # (x, y) from below on
BEND: Final = 0.4  # rows that a line takes which passes a column
MOST_TRANSPOSED: Final = 600  # edges: neighbours are changed round where that helps; with 2,800 it took 2.3 s
FOLDED_FROM: Final = 40  # places: a picture of fewer shows each
MOST_NODES: Final = 200
WIDTH, HEIGHT, GAP_X, GAP_Y, EDGE = 168, 44, 56, 14, 8  # of a node, between nodes, and around all, in pixels
_Corner: TypeAlias = tuple[int, int]  # the left upper one, in pixels
# How the many of one node stand, what somebody looks for first first.
_LOUDEST: Final = ("failed", "timed_out", "canceled", "in_progress", "pending", "success")


def lay_out(depths: Mapping[int, int], edges: Collection[Edge]) -> tuple[dict[int, Spot], dict[Edge, list[Spot]]]:
    """Place each node in the column of its depth, so that few lines cross, and return the spot of each, and where the
    line of each edge passes the columns in between. The same graph is laid out the same, whichever process does it."""
    # Whatever it bends lines at has the numbers after those of the nodes, so these are numbered without a gap.
    names = sorted({*chain.from_iterable(edges)})
    numbers = {name: number for number, name in enumerate(names)}
    parts = from_edges(
        sorted((numbers[one], numbers[other]) for one, other in edges), vertex_spacing=1, ranking_type="up",
        dummy_vertices=True, dummy_size=BEND, transpose=len(edges) <= MOST_TRANSPOSED,
    )  # fmt: skip
    spots: dict[int, Spot] = {}
    bends: dict[Edge, list[Spot]] = {}
    below = 0.0
    for positions, _, _, links in cast("list[_Part]", parts):
        first = min(depths[names[one]] for one, _ in positions if one < len(names))
        top, right = (max(values) for values in zip(*(spot[::-1] for _, spot in positions), strict=True))
        placed = {one: (first + top - y, below + right - x) for one, (x, y) in positions}
        below = 1 + max(row for _, row in placed.values())
        spots |= {names[one]: spot for one, spot in placed.items() if one < len(names)}
        ways = _ways(links, len(names))
        bends |= {(names[one], names[other]): [placed[bend] for bend in between] for one, *between, other in ways}
    alone = [name for name in depths if name not in spots]
    return spots | {name: (depths[name], below + n) for n, name in enumerate(alone)}, bends


def _ways(links: Collection[Edge], nodes: int) -> list[list[int]]:
    """From a node to the next by whatever is in between, which has a number of `nodes` or more."""
    onward = {one: other for one, other in links if one >= nodes}
    ways = [[one, other] for one, other in links if one < nodes]
    for way in ways:
        while way[-1] >= nodes:
            way.append(onward[way[-1]])
    return ways


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place of a flow: the job that has it, what that comes `after`, and for how many seconds it ran so far. Moments
    are in seconds since the epoch."""

    id: int
    name: str
    kind: str
    status: str
    depth: int
    after: Sequence[int]
    progress: float | None = None
    ran_s: float = 0.0
    created_s: float = 0.0
    claimed_s: float | None = None  # by the latest claim
    ended_s: float | None = None


@dataclass(slots=True, kw_only=True)
class Node:
    """One job of a flow, or many that are alike. `x` and `y` are its left upper corner."""

    places: Sequence[Place]
    x: int = 0
    y: int = 0
    is_longest: bool = False
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.counts = Counter(place.status for place in self.places)

    @property
    def first(self) -> Place:
        return self.places[0]

    @property
    def number(self) -> int:
        return len(self.places)

    @property
    def label(self) -> str:
        """Its name, or its kind where it has none or stands for many."""
        return self.first.kind if self.number > 1 else self.first.name or self.first.kind

    @property
    def status(self) -> str:
        """How it stands; of many what somebody looks for first."""
        return next(status for status in _LOUDEST if self.counts[status])

    @property
    def share(self) -> float:
        """How far it is, from 0 to 1: of many how many have ended."""
        if self.number > 1:
            return 1 - (self.counts["pending"] + self.counts["in_progress"]) / self.number
        return 1.0 if self.status == "success" else self.first.progress or 0.0

    @property
    def stands(self) -> str:
        """How it stands, or how many stand how, in words: what somebody looks for first, as a node is narrow."""
        words = [(status.replace("_", " "), self.counts[status]) for status in _LOUDEST if self.counts[status]]
        return ", ".join(f"{count:,} {status}" if self.number > 1 else status for status, count in words)

    @property
    def title(self) -> str:
        """What it is, and how it stands."""
        which = f"#{self.first.id}" if self.number == 1 else f"× {self.number:,}"
        return f"{self.label} {which}: {self.stands}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """From one node to another, as the path of an SVG says it."""

    path: str
    is_longest: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """The picture, in pixels. `left_out`: nodes beyond MOST_NODES. `longest_s`: what the longest way took so far."""

    nodes: Sequence[Node]
    lines: Sequence[Line]
    width: int
    height: int
    left_out: int
    longest_s: float
    WIDTH: int = WIDTH


def graph(places: Sequence[Place]) -> Graph:
    """The picture of these places, which stand in order of depth."""
    groups = _alike(places) if len(places) > FOLDED_FROM else {place.id: n for n, place in enumerate(places)}
    members: dict[int, list[Place]] = defaultdict(list)
    for place in places:
        members[groups[place.id]].append(place)
    nodes = {group: Node(places=those) for group, those in members.items()}
    shown = dict(list(nodes.items())[:MOST_NODES])
    edges = {
        (before, group)
        for group, node in shown.items() for place in node.places for one in place.after
        if (before := groups.get(one, group)) != group and before in shown
    }  # fmt: skip
    bends = _lay_out(shown, edges)
    way = _longest(places)
    on_way = {groups[one] for one in way}
    for group in on_way & shown.keys():
        shown[group].is_longest = len(way) > 1
    steps = {(groups[one], groups[other]) for one, other in pairwise(way)}
    lines = [
        Line(path=_path(shown[one], shown[other], bends[one, other]), is_longest=(one, other) in steps)
        for one, other in sorted(edges)
    ]
    ran = {place.id: place.ran_s for place in places}
    corners = [*((node.x, node.y) for node in shown.values()), *chain.from_iterable(bends.values())]
    return Graph(
        nodes=[*shown.values()], lines=lines, left_out=len(nodes) - len(shown), longest_s=sum(ran[one] for one in way),
        width=max((node.x for node in shown.values()), default=0) + WIDTH + EDGE,
        height=max((top for _, top in corners), default=0) + HEIGHT + EDGE,
    )  # fmt: skip


def _alike(places: Sequence[Place]) -> dict[int, int]:
    """Which places are alike: of one kind and depth, after such that are alike, and before such that are. Groups are
    split until none has to be."""
    known = {place.id for place in places}
    later: dict[int, list[int]] = defaultdict(list)
    for place in places:
        for one in place.after:
            later[one].append(place.id)
    groups = _numbered((place.id, (place.kind, place.depth)) for place in places)
    while True:
        split = _numbered(
            (place.id, (groups[place.id], frozenset(groups[one] for one in place.after if one in known),
                        frozenset(groups[one] for one in later[place.id])))
            for place in places
        )  # fmt: skip
        if len(set(split.values())) == len(set(groups.values())):
            return split
        groups = split


def _numbered(signed: Iterable[tuple[int, object]]) -> dict[int, int]:
    numbers: dict[object, int] = {}
    return {one: numbers.setdefault(sign, len(numbers)) for one, sign in signed}


def _lay_out(nodes: Mapping[int, Node], edges: Collection[Edge]) -> dict[Edge, list[_Corner]]:
    """Give each node its corner, and return the corners that the line of each edge bends at (docs/adr/0136)."""
    spots, bends = lay_out({group: node.first.depth for group, node in nodes.items()}, edges)
    for group, spot in spots.items():
        nodes[group].x, nodes[group].y = _corner(*spot)
    return {edge: [_corner(*spot) for spot in bent] for edge, bent in bends.items()}


def _corner(column: float, row: float) -> _Corner:
    return EDGE + round(column * (WIDTH + GAP_X)), EDGE + round(row * (HEIGHT + GAP_Y))


def _path(one: Node, other: Node, bends: Sequence[_Corner]) -> str:
    """A curve from each column to the next, and across a column in between a line as long as a node is wide."""
    x, y = one.x + WIDTH, one.y + HEIGHT // 2
    path = f"M{x} {y}"
    for to_x, top in [*bends, (other.x, other.y)]:
        middle, to_y = (x + to_x) // 2, top + HEIGHT // 2
        path += f"C{middle} {y} {middle} {to_y} {to_x} {to_y}H{to_x + WIDTH}"
        x, y = to_x + WIDTH, to_y
    return path.rsplit("H", 1)[0]


def _longest(places: Sequence[Place]) -> list[int]:
    """The way of jobs one after another that ran for longest together."""
    total: dict[int, float] = {}
    before: dict[int, int | None] = {}
    for place in places:  # by depth: what it comes after is there already
        known = [one for one in place.after if one in total]
        before[place.id] = max(known, key=lambda one: total[one], default=None)
        total[place.id] = place.ran_s + max((total[one] for one in known), default=0.0)
    way: list[int] = []
    last = max(total, key=lambda one: total[one], default=None)
    while last is not None:
        way.append(last)
        last = before[last]
    return way[::-1]
