"""In which order transactions take locks that others wait for: a graph over all schedules. A circle in it is a deadlock
that two or more of them can come to, also where no schedule did."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import psycopg

Transaction = tuple[int, object]
Later = Mapping[str, set[str]]

# Who waits for a row holds the lock of its tuple while it waits for the transaction that changed it. Where that lock is
# not known, nor is the row: no name that two could share.
_LOOK: Final = """
SELECT waits.pid, waiting.xact_start, blocker.pid, blocking.xact_start,
       coalesce(coalesce(waits.relation, tuple.relation)::regclass::text,
                waits.locktype || coalesce(' ' || waits.classid, ''))
FROM pg_locks AS waits
CROSS JOIN LATERAL unnest(pg_blocking_pids(waits.pid)) AS blocker (pid)
JOIN pg_stat_activity AS waiting ON waiting.pid = waits.pid
JOIN pg_stat_activity AS blocking ON blocking.pid = blocker.pid
LEFT JOIN pg_locks AS tuple ON tuple.pid = waits.pid AND tuple.locktype = 'tuple' AND tuple.granted
    AND tuple.mode <> 'SIReadLock' -- for which nobody waits
WHERE NOT waits.granted AND waits.pid = ANY (%s) AND (waits.locktype <> 'transactionid' OR tuple.relation IS NOT NULL)
"""


class Orders:
    """The graph: after which locks each was waited for."""

    def __init__(self, watcher: psycopg.Connection[tuple[Any, ...]]) -> None:
        self._watcher = watcher
        self._held: dict[Transaction, set[str]] = defaultdict(set)
        self._wanted: dict[Transaction, str] = {}
        self.later: dict[str, set[str]] = defaultdict(set)

    def begin(self) -> None:
        """Another schedule begins: transactions of the last one are over."""
        self._held.clear()
        self._wanted.clear()

    def look(self, pids: Sequence[int]) -> None:
        """Note who of these waits for which lock, and who holds it."""
        rows = self._watcher.execute(_LOOK, [list(pids)]).fetchall()
        for waiter, since, blocker, blocks_since, lock in rows:
            me = waiter, since
            if (before := self._wanted.get(me, lock)) != lock:
                self._held[me].add(before)  # it came by, and waits for the next
            self._wanted[me] = lock
            self._held[blocker, blocks_since].add(lock)
        for waiter, since, *_, lock in rows:
            for held in self._held[waiter, since] - {lock}:
                self.later[held].add(lock)

    def circles(self) -> list[str]:
        """Each circle of locks that some take in one order and others in another."""
        return circles(self.later)


def circles(later: Later) -> list[str]:
    """Of each order in such a graph that is part of a circle, the shortest one."""
    found = (_way(later, then, lock) for lock in later for then in later[lock])
    return sorted({_named(way) for way in found if way})


def joined(graphs: Iterable[Later]) -> Later:
    """One graph of several: what one scene locks in one order, another may in the other."""
    whole: dict[str, set[str]] = defaultdict(set)
    for graph in graphs:
        for lock, later in graph.items():
            whole[lock] |= later
    return whole


def _way(graph: Later, start: str, end: str) -> list[str]:
    """The shortest way from here to there; empty if there is none."""
    ways, seen = [[start]], {start}
    for way in ways:
        if way[-1] == end:
            return way
        further = sorted(graph.get(way[-1], set()) - seen)
        seen.update(further)
        ways += [[*way, lock] for lock in further]
    return []


def _named(way: Sequence[str]) -> str:
    first = way.index(min(way))
    turned = [*way[first:], *way[:first]]
    return " before ".join([*turned, turned[0]])
