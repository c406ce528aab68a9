"""What the workers of a cluster get next, and what of it is still in their hands.

The queue in the database is only read. A row leaves it with the transaction that starts its function; so what is
remembered here saves work and decides nothing: forgotten, or given to two clusters, a function runs once all the same.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.conf import settings

from scheduling.cluster.channel import TaskQueue
from scheduling.cluster.scoreboard import Scoreboard
from scheduling.domain.clusters import Pace
from scheduling.domain.states import Kind
from scheduling.operations import clusters
from scheduling.queries.functions import Dispatch, Lane, Share

# Of the time, a look from the beginning of the queue may take a twentieth. Behind a long transaction what is done stays
# in the index, 0.3 us each: in between, looks begin where the last one found something.
SELDOM = 20
KEPT_LANES = 32
SHARE_S = 2.0  # how often the other clusters are counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """What a pusher serves: a cluster's life, the kind it runs, the queues (None: all), and its processes."""

    cluster_id: UUID
    kind: Kind
    queues: Sequence[str] | None
    board: Scoreboard
    tasks: TaskQueue


@dataclass(slots=True)
class Dispatcher:
    """Gives due functions to the workers of one cluster; belongs to its pusher."""

    post: Post
    _pace: Pace = field(init=False)
    _lanes: list[Lane] = field(default_factory=list)
    _is_whole: bool = True  # whether the last look began at the beginning of the queue
    _whole_at: float = 0.0
    _share: Share = field(default_factory=Share)
    _share_at: float = 0.0
    _is_full: bool = False
    _sent: dict[int, Dispatch] = field(default_factory=dict)  # by the number of the message
    _tried: dict[tuple[int, str], float] = field(default_factory=dict)  # when it left the workers' hands
    _barren: dict[int, tuple[str, float]] = field(default_factory=dict)  # tried, and still there

    def __post_init__(self) -> None:
        self._pace = Pace(workers=self.post.board.workers)

    def room(self) -> int:
        """How many functions may be given now. Actions only as many as workers are free: each begins at once."""
        board, waiting = self.post.board, self.post.tasks.waits()
        if self.post.kind is Kind.ACTION:
            return max(board.count_free() - waiting, 0)
        return self._pace.room(waiting=waiting)

    def dispatch(self, room: int) -> int:
        """Give up to `room` due functions to the workers; how many that were."""
        self._forget()
        self._measure()
        batch = self._new(room)
        for one in batch:
            self._sent[self.post.tasks.send(one)] = one
        self._is_full = len(batch) == room
        self._pace.begin(now=time.monotonic())
        if batch:
            self._count_clusters()
        return len(batch)

    def is_idle(self) -> bool:
        self._forget()
        return not (self._sent or self._barren)

    def next_wake_s(self) -> float:
        """How long the pusher may sleep when nothing wakes it; after a look at a part, until the next at the whole."""
        seconds = clusters.next_wake_s(self.post.kind, self._lanes, excluded=self._excluded())
        return seconds if self._is_whole else min(seconds, max(self._whole_at - time.monotonic(), 0.0))

    def _measure(self) -> None:
        """Workers that found nothing, although there was more to do, get more at a time."""
        board = self.post.board
        is_starved = self._is_full and not board.in_queue()
        self._pace.measure(taken=board.count_taken(), now=time.monotonic(), is_starved=is_starved)
        board.set_low(self._pace.depth // 2)

    def _count_clusters(self) -> None:
        """After a look and not before it: what is due does not wait for that."""
        if (now := time.monotonic()) >= self._share_at:
            self._share, self._share_at = clusters.share(self.post.cluster_id), now + SHARE_S

    def _new(self, room: int) -> list[Dispatch]:
        """What a scan returns and was not tried just now; of a scan of only such functions, those behind them."""
        while scanned := self._scan(room):
            if fresh := [one for one in scanned if self._is_new(one)]:
                return fresh
        return []

    def _scan(self, room: int) -> list[Dispatch]:
        began = time.monotonic()
        self._is_whole = began >= self._whole_at
        if self._is_whole:
            self._find_lanes()
        batch, heads = clusters.scan(
            self.post.kind, self._lanes, limit=room, excluded=self._excluded(), share=self._share
        )
        known = {(lane.queue, lane.priority): lane for lane in [*self._lanes, *heads]}
        self._lanes = list(known.values())
        if self._is_whole:
            ended = time.monotonic()
            self._whole_at = ended + SELDOM * (ended - began)
        return batch

    def _find_lanes(self) -> None:
        """All there are, from their beginnings; and some that are empty now and will be used again."""
        present = clusters.lanes(self.post.kind, queues=self.post.queues)
        names = {(lane.queue, lane.priority) for lane in present}
        empty = [lane for lane in self._lanes if (lane.queue, lane.priority) not in names]
        self._lanes = [*present, *empty[-KEPT_LANES:]]

    def _excluded(self) -> list[int]:
        return [*(one.id for one in self._sent.values()), *self._barren]

    def _is_new(self, one: Dispatch) -> bool:
        """Not what came to nothing just now: a mutation that another cluster runs lies in the queue until it ends."""
        tried_at = self._tried.get((one.id, one.due_pointer))
        if tried_at is not None:
            self._barren[one.id] = (one.due_pointer, tried_at)
        return tried_at is None

    def _forget(self) -> None:
        """What is neither waiting for a worker nor run by one has left our hands; a lease later it may come again."""
        now, board = time.monotonic(), self.post.board
        # A worker that is killed as it takes a message takes it along: of an empty queue nothing waits.
        waits_from = board.count_taken() if not self.post.tasks.empty() else board.count_sent()
        for number in [n for n in self._sent if n <= waits_from and not board.is_busy_with(n)]:
            one = self._sent.pop(number)
            self._tried[one.id, one.due_pointer] = now
        until = now - settings.SCHEDULING["LEASE_S"]
        while self._tried and next(iter(self._tried.values())) < until:
            self._tried.pop(next(iter(self._tried)))
        for function_id in [pk for pk, (_, since) in self._barren.items() if since < until]:
            del self._barren[function_id]
