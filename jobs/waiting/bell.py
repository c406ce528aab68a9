"""The bell: one per process.

It asks whether there is work, once for all who wait for the same, and wakes as many.

Asked is when something changed (topics `work:` and `due:`), when a job becomes due, and every 5 s in any
case, always in one statement for all. Who is woken asks Django for the job; what comes of that is theirs to
tell (`Turn`).
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

import live
from jobs.operations import taking
from jobs.queries.reads import Claimable, Interest
from jobs.waiting.rings import NEVER, Ring, Turn, Waiter
from jobs.waiting.stopping import Stopping
from live import hub
from postgres import connections

logger = logging.getLogger("jobs")

POLL_S: Final = 5.0  # the safety net: lost messages, and jobs that become due
HORIZON_S: Final = POLL_S + 1.0  # a job due later than this is seen by a later poll
TURN_S: Final = 2.0  # to ask in; a socket that was told and says nothing loses its turn
NEW_ROUND_S: Final = 30.0  # jobs that hid from all who waited are offered again this often: their grace ends
KEPT_S: Final = 60.0  # a ring without waiters is remembered, for whoever polls again
RETRY_S: Final = 1.0
SKEW_S: Final = 60.0  # how far this machine's clock may be off the database's

_WALL: Final = time.time  # noqa: TID251  # only to tell soon from late; a bell is an edge
Ask = Callable[[Sequence[tuple[Interest, int]]], Sequence[Claimable]]


def claimable(wanted: Sequence[tuple[Interest, int]]) -> Sequence[Claimable]:
    """For each (interest, how many at most): how many jobs there are, and when the next is due. Runs in a thread."""
    return taking.claimable(wanted, horizon_s=HORIZON_S)


class Bell:
    """Belongs to the event loop it was made on, which must run. `stop` it with the process."""

    def __init__(
        self, *, stopping: Stopping, ask: Ask = claimable, wall: Callable[[], float] = _WALL
    ) -> None:
        self._stopping = stopping
        self._ask = ask
        self._wall = wall
        self._loop = asyncio.get_running_loop()
        self._rings: dict[Interest, Ring] = {}
        self._rung: dict[str, float] = {}
        self._all_rung_at = self._loop.time()
        self._polled_at = NEVER
        self._news = asyncio.Event()
        self._subscription = hub.current().watch_topics(["work:*", "due:*"], self._hear)
        self._task = self._loop.create_task(self._run(), name="jobs: bell")

    async def wait(self, interest: Interest, *, asked_at: float, timeout_s: float | None) -> Turn | None:
        """Wait until it is this caller's turn to ask for jobs; None when `timeout_s` or the process ended
        before.

        `asked_at` is the loop's time from just before the caller last asked and got nothing (or NEVER): what
        happened since then counts. The caller ends the turn. Cancelling is safe: a turn that was given
        already is passed on.
        """
        ring = self._ring(interest)
        waiter = Waiter(asked_at=asked_at, turn=self._loop.create_future())
        if self._stopping:
            return None
        ring.join(waiter, fresh_after=self._loop.time() - POLL_S)
        try:
            await asyncio.wait({waiter.turn}, timeout=timeout_s)
            return waiter.turn.result() if waiter.turn.done() else None
        except asyncio.CancelledError:
            if waiter.turn.done() and (turn := waiter.turn.result()):
                turn.passed()
            raise
        finally:
            ring.leave(waiter, now=self._loop.time())

    async def stop(self) -> None:
        """Send everybody away, and end."""
        self._subscription.close()
        self._task.cancel()
        await asyncio.wait({self._task})
        for ring in self._rings.values():
            for waiter in list(ring.waiters):
                waiter.turn.set_result(None)
            if ring.due is not None:
                ring.due.cancel()
            for turn in list(ring.turns):
                turn.passed()

    def _ring(self, interest: Interest) -> Ring:
        if interest not in self._rings:
            ring = self._rings[interest] = Ring(interest=interest, news=self._news.set)
            heard = [at for queue, at in self._rung.items() if ring.hears(queue)]
            ring.rung_at = max([self._all_rung_at, *heard])
        return self._rings[interest]

    def _hear(self, topics: set[str]) -> None:
        if live.RECONNECTED in topics:
            self._ring_all()
        for topic in topics:
            kind, _, rest = topic.partition(":")
            if kind == "work":
                self._ring_queue(rest)
            elif kind == "due":
                queue, _, due_ms = rest.rpartition(":")
                self._expect(queue, int(due_ms))

    def _ring_all(self) -> None:
        self._all_rung_at = self._loop.time()
        for ring in self._rings.values():
            ring.ring(self._all_rung_at)

    def _ring_queue(self, queue: str) -> None:
        now = self._rung[queue] = self._loop.time()
        for ring in self._rings.values():
            if ring.hears(queue):
                ring.ring(now)

    def _expect(self, queue: str, due_ms: int) -> None:
        """A job becomes due at a moment of the database's clock.

        If that is soon, ask the database how soon.
        """
        if due_ms / 1000 > self._wall() + HORIZON_S + SKEW_S:
            return
        for ring in self._rings.values():
            if ring.hears(queue):
                ring.stale = True
        self._news.set()

    async def _run(self) -> None:
        while True:
            try:
                await self._pause()
                await self._count()
            except Exception:
                logger.exception("The bell could not ask for work; trying again")
                await asyncio.sleep(RETRY_S)
                self._news.set()

    async def _pause(self) -> None:
        """Wait for news, or for the poll while anybody waits."""
        waiting = any(ring.waiters for ring in self._rings.values())
        left_s = max(0.0, self._polled_at + POLL_S - self._loop.time()) if waiting else None
        try:
            async with asyncio.timeout(left_s):
                await self._news.wait()
        except TimeoutError:
            pass
        self._news.clear()

    async def _count(self) -> None:
        """Ask for all rings that want it, all at once when the poll is due, and act on the answers."""
        is_poll = self._loop.time() >= self._polled_at + POLL_S
        asked = [
            ring for ring in self._rings.values() if ring.waiters and (is_poll or ring.wants_an_answer())
        ]
        if not asked:
            return
        if is_poll:
            self._polled_at = self._loop.time()
            self._forget_the_abandoned()
        under_way = [len(ring.turns) for ring in asked]
        for ring in asked:
            ring.dirty = ring.stale = False
        wanted = [(ring.interest, len(ring.waiters) + len(ring.turns)) for ring in asked]
        try:
            answers = await connections.run(self._ask, wanted)
        except BaseException:
            for ring in asked:
                ring.dirty = ring.stale = True
            raise
        for ring, answer, turns in zip(asked, answers, under_way, strict=True):
            self._answered(ring, answer, turns=turns, is_poll=is_poll)

    def _answered(self, ring: Ring, answer: Claimable, *, turns: int, is_poll: bool) -> None:
        ring.answered_at = self._loop.time()
        ring.residue = min(ring.residue, answer.jobs)
        self._arm(ring, answer.next_due_in_s)
        # Turns that were under way when we asked take a job each: of those that were counted, if they were
        # not yet at it, else of none; then they have us count again.
        ring.deducted = turns > 0 and answer.jobs > 0
        if is_poll and answer.jobs > turns and self._is_news(ring, answer.jobs):
            ring.rung_at = ring.answered_at
        for _ in range(answer.jobs - turns):
            turn = ring.wake_next()
            if turn is None:
                ring.residue = answer.jobs
                break
            turn.expiry = self._loop.call_later(TURN_S, turn.passed)

    def _is_news(self, ring: Ring, jobs: int) -> bool:
        """Whether what the poll found is more than what hid from all who wait: then a message was lost."""
        return jobs > ring.residue or self._loop.time() > ring.rung_at + NEW_ROUND_S

    def _arm(self, ring: Ring, due_in_s: float | None) -> None:
        if ring.due is not None:
            ring.due.cancel()
            ring.due = None
        if due_in_s is not None:
            # A timer that fires a hair early would have us ask again at once, and again.
            ring.due = self._loop.call_later(due_in_s + 0.002, lambda: ring.ring(self._loop.time()))

    def _forget_the_abandoned(self) -> None:
        since = self._loop.time() - KEPT_S
        for interest, ring in list(self._rings.items()):
            if not ring.waiters and not ring.turns and ring.emptied_at < since:
                self._arm(ring, None)
                del self._rings[interest]
