"""Whether transactions that read lists and append to them were serializable, as Elle decides it: each list shows the
order of its appends, so who came before whom is read off, and a circle of that cannot be.

A call "mutation" has `more` = {"id": ..., "reads": [[list, entries]], "appends": [[list, entry]]}, in its order.
G0: a circle of writes; G1a: what was read was never committed; G1b: a transaction's state in between was read; G1c: a
circle of writes and reads; G2: a circle with one who read before another wrote.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from tests.histories.history import Call

_NAMES: Final = {"ww": "appended before", "wr": "was read by", "rw": "read before the append of"}


class Edge(NamedTuple):
    """One transaction came before another: which way, and by which list."""

    after: str
    how: str
    key: str


Graph = Mapping[str, Sequence[Edge]]


def faults(calls: Sequence[Call], lists: Mapping[str, Sequence[int]] | None) -> Iterator[str]:
    """What cannot be of transactions that come one after another."""
    done = {str(call.more["id"]): call for call in calls if call.call == "mutation" and call.outcome != "failed"}
    failed = {str(call.more["id"]): call for call in calls if call.call == "mutation" and call.outcome == "failed"}
    wrote = {pair: name for name, call in {**failed, **done}.items() for pair in _appends(call)}
    seen = [(name, key, list(entries)) for name, call in done.items() for key, entries in call.more.get("reads", ())]
    seen += [("the last look", key, list(entries)) for key, entries in (lists or {}).items()]
    orders: dict[str, list[int]] = {}
    for _, key, entries in sorted(seen, key=lambda look: len(look[2])):
        if orders.get(key, []) != entries[: len(orders.get(key, []))]:
            both = f"{_short(orders[key])} and as {_short(entries)}"
            yield f"list {key} was read as {both}: one is no beginning of the other"
        orders[key] = entries
    yield from _of_reads(seen, wrote, done, failed)
    yield from _forgotten(done, lists)
    yield from _circles(_graph(done, seen, wrote, orders))


def _of_reads(
    seen: Sequence[tuple[str, str, list[int]]], wrote: Mapping[tuple[str, int], str], done: Mapping[str, Call],
    failed: Mapping[str, Call],
) -> Iterator[str]:  # fmt: skip
    for reader, key, entries in seen:
        if len(set(entries)) < len(entries):
            yield f"list {key} was read by {reader} with an entry twice: {_short(entries)}"
        for entry in entries:
            if (writer := wrote.get((key, entry))) is None:
                yield f"list {key} was read by {reader} with {entry}, which nobody appended"
            elif writer in failed:
                yield f"G1a: {reader} read {entry} of list {key}, which {writer} appended and took back"
        last = wrote.get((key, entries[-1])) if entries else None
        if last is not None and last in done and last != reader:
            mine = [entry for of, entry in _appends(done[last]) if of == key]
            if mine[-1] != entries[-1]:
                yield f"G1b: {reader} read list {key} up to {entries[-1]}, and {last} appended {mine[-1]} after that"


def _forgotten(done: Mapping[str, Call], lists: Mapping[str, Sequence[int]] | None) -> Iterator[str]:
    """What was acknowledged and is not in its list at the end."""
    for name, call in done.items():
        for key, entry in _appends(call):
            if lists is not None and call.outcome == "ok" and entry not in lists.get(key, ()):
                yield f"{name} was acknowledged, and list {key} has not its {entry}"


def _graph(
    done: Mapping[str, Call], seen: Sequence[tuple[str, str, list[int]]], wrote: Mapping[tuple[str, int], str],
    orders: Mapping[str, Sequence[int]],
) -> Graph:  # fmt: skip
    graph: dict[str, list[Edge]] = defaultdict(list)

    def add(before: str | None, after: str | None, how: str, key: str) -> None:
        if before is not None and after is not None and before != after and {before, after} <= done.keys():
            graph[before].append(Edge(after, how, key))

    for key, order in orders.items():
        writers = [wrote.get((key, entry)) for entry in order]
        for before, after in pairwise(writers):
            add(before, after, "ww", key)
    for reader, key, entries in seen:
        order = orders[key]
        theirs = [place for place, entry in enumerate(entries) if wrote.get((key, entry)) != reader]
        if theirs:
            add(wrote.get((key, entries[theirs[-1]])), reader, "wr", key)
        later = [entry for entry in order[len(entries) :] if wrote.get((key, entry)) != reader]
        if later:
            add(reader, wrote.get((key, later[0])), "rw", key)
    return graph


def _circles(graph: Graph) -> Iterator[str]:
    """The shortest circle of the worst name that there is."""
    for name, hows in (("G0", {"ww"}), ("G1c", {"ww", "wr"}), ("G2", {"ww", "wr", "rw"})):
        kept = {one: [edge for edge in edges if edge.how in hows] for one, edges in graph.items()}
        found = [circle for one in kept if (circle := _circle(kept, one))]
        if found:
            shortest = min(found, key=len)
            words = [f"{before} {_NAMES[edge.how]} {edge.after} (list {edge.key})" for before, edge in shortest]
            yield f"{name}: {'; '.join(words)}"
            return


def _circle(graph: Graph, begin: str) -> list[tuple[str, Edge]]:
    """The shortest way from a transaction back to itself; empty if there is none."""
    came: dict[str, tuple[str, Edge]] = {}
    queue = deque([begin])
    while queue and begin not in came:
        for edge in graph.get(here := queue.popleft(), ()):
            if edge.after not in came:
                came[edge.after] = here, edge
                queue.append(edge.after)
    if begin not in came:
        return []
    way = [came[begin]]
    while way[0][0] != begin:
        way.insert(0, came[way[0][0]])
    return way


def _appends(call: Call) -> list[tuple[str, int]]:
    return [(key, entry) for key, entry in call.more.get("appends", ())]


def _short(entries: Sequence[int]) -> str:
    return str(list(entries)) if len(entries) <= 6 else f"[... {', '.join(map(str, entries[-4:]))}]"
