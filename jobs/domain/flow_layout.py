"""Where the nodes of a flow's picture stand, and where its lines bend: by fast-sugiyama (docs/adr/0136)."""

from collections.abc import Collection, Mapping
from itertools import chain
from typing import Final, TypeAlias, cast

from fast_sugiyama import from_edges

Spot: TypeAlias = tuple[float, float]  # column, row
Edge: TypeAlias = tuple[int, int]
_Part: TypeAlias = tuple[list[tuple[int, tuple[float, float]]], float, float, list[Edge]]  # (x, y) from below on
BEND: Final = 0.4  # rows that a line takes which passes a column
MOST_TRANSPOSED: Final = 600  # edges: neighbours are changed round where that helps; with 2,800 it took 2.3 s


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
