"""What of the queue comes next.

The queue in the database is only read. A row leaves it with the transaction that starts its function; so what is
remembered here saves work and decides nothing: forgotten, or given to two clusters, a function runs once all the same.
"""

import time
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from uuid import UUID

from django.conf import settings

from scheduling.domain.calls import Kind
from scheduling.operations import clusters
from scheduling.queries import functions
from scheduling.queries.functions import Dispatch, Lane, Share

# Of the time, a look from the beginning of the queue may take a twentieth. Behind a long transaction what is done stays
# in the index, 0.3 us each: in between, looks begin where the last one found something.
SELDOM = 20
KEPT_LANES = 32
SHARE_S = 2.0  # how often the other clusters are counted


class Backlog:
    """The functions of one kind, in these queues (None: all), that are due and that this cluster may try."""

    def __init__(self, *, cluster_id: UUID, kind: Kind, queues: Sequence[str] | None) -> None:
        self._cluster_id, self._kind, self._queues = cluster_id, kind, queues
        self._lanes: list[Lane] = []
        self._is_whole = True  # whether the last look began at the beginning of the queue
        self._whole_at = 0.0
        self._share, self._share_at = Share(), 0.0
        # When it left the workers' hands. Of a plain dict each look for the first walks over all that are gone.
        self._tried: OrderedDict[tuple[int, str], float] = OrderedDict()
        self._barren: dict[int, float] = {}  # tried, and still there

    def note_tried(self, dispatches: Iterable[Dispatch]) -> None:
        """Workers have begun these. A row that stays in the queue as it was is given again a lease later: another
        cluster's mutation lies there until it ends."""
        now = time.monotonic()
        self._tried |= {(one.id, one.due_pointer): now for one in dispatches}

    def is_quiet(self) -> bool:
        """Whether everything that was tried is done."""
        self._forget()
        return not self._barren

    def look(self, limit: int, *, in_hands: Collection[int]) -> list[Dispatch]:
        """Up to `limit` due functions, the most urgent first, without those that workers have or have just tried; of a
        scan of only such functions, those behind them."""
        self._forget()
        while scanned := self._scan(limit, in_hands):
            if fresh := [one for one in scanned if self._is_new(one)]:
                return fresh
        return []

    def next_wake_s(self, *, in_hands: Collection[int]) -> float:
        """How long nothing need be looked for unless somebody says so; after a look at a part, until the next whole."""
        seconds = clusters.next_wake_s(self._kind, self._lanes, excluded=[*in_hands, *self._barren])
        return seconds if self._is_whole else min(seconds, max(self._whole_at - time.monotonic(), 0.0))

    def count_clusters(self) -> None:
        """After a look and not before it: what is due does not wait for that."""
        if (now := time.monotonic()) >= self._share_at:
            self._share, self._share_at = clusters.share(self._cluster_id), now + SHARE_S

    def _scan(self, limit: int, in_hands: Collection[int]) -> list[Dispatch]:
        began = time.monotonic()
        self._is_whole = began >= self._whole_at
        if self._is_whole:
            self._find_lanes()
        excluded = [*in_hands, *self._barren]
        batch, heads = functions.dispatch(self._kind, self._lanes, limit=limit, excluded=excluded, share=self._share)
        known = {(lane.queue, lane.priority): lane for lane in [*self._lanes, *heads]}
        self._lanes = list(known.values())
        if self._is_whole:
            ended = time.monotonic()
            self._whole_at = ended + SELDOM * (ended - began)
        return batch

    def _find_lanes(self) -> None:
        """All there are, from their beginnings; and some that are empty now and will be used again."""
        present = functions.lanes(self._kind, queues=self._queues)
        names = {(lane.queue, lane.priority) for lane in present}
        empty = [lane for lane in self._lanes if (lane.queue, lane.priority) not in names]
        self._lanes = [*present, *empty[-KEPT_LANES:]]

    def _is_new(self, one: Dispatch) -> bool:
        tried_at = self._tried.get((one.id, one.due_pointer))
        if tried_at is not None:
            self._barren[one.id] = tried_at
        return tried_at is None

    def _forget(self) -> None:
        until = time.monotonic() - settings.SCHEDULING["LEASE_S"]
        while self._tried and next(iter(self._tried.values())) < until:
            self._tried.popitem(last=False)
        self._barren = {pk: since for pk, since in self._barren.items() if since >= until}
