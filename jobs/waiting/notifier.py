"""The notifier: one per process.

It counts claimable jobs, once for all who wait for the same, and wakes as many waiters. One of those who claim
within this process is woken before anything is counted: its claim is as good as a count, and one round trip earlier.

It counts when something changed (topics `work:` and `due:`), when a job becomes due, and every 5 s in any
case, always in one statement for all. A woken waiter claims through Django and reports the result (`Wakeup`).
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import live
from jobs.queries import reads
from jobs.queries.reads import Claimable, Interest
from jobs.waiting.requests import within
from live import hub
from observing import fields
from postgres import connections

logger = logging.getLogger("jobs")

POLL_S: Final = 5.0  # the safety net: lost messages, and jobs that become due
HORIZON_S: Final = POLL_S + 1.0  # a job due later than this is seen by a later poll
WAKEUP_S: Final = 2.0  # to claim in; a socket that does nothing with its wakeup loses it
NEW_ROUND_S: Final = 30.0  # jobs that hid from all who waited are offered again this often: their grace ends
RETENTION_S: Final = 60.0  # a wait group without waiters is remembered, for whoever polls again
RETRY_S: Final = 1.0
SHARE_S: Final = 1.0  # so often at most workers are told for one group: what lies ready is worth a quarter of a second
SKEW_S: Final = 60.0  # how far this machine's clock may be off the database's

NEVER: Final = float("-inf")
_WALL: Final = time.time  # noqa: TID251  # only to tell soon from late
Share = Callable[[], Coroutine[Any, Any, None]]
Query = Callable[[Sequence[tuple[Interest, int]]], Sequence[Claimable]]


@dataclass(eq=False, slots=True, kw_only=True)
class Waiter:
    """Somebody whose claim got nothing, at `polled_at` on the loop's clock (NEVER: none was made yet).

    `claims_itself`: once woken it claims within this process, and needs no count to begin with. The others are workers
    that are told that there is something, and come by a call.
    """

    polled_at: float
    claims_itself: bool
    wakeup: "asyncio.Future[Wakeup | None]"


@dataclass(eq=False, slots=True, kw_only=True)
class Wakeup:
    """The right, and the duty, of one woken waiter to claim: `used` if jobs came, `passed` if none did.

    One that nobody ends passes by itself after a while, so that a silent worker holds nobody up.
    """

    group: "WaitGroup"
    expiry: asyncio.TimerHandle | None = None
    is_over: bool = False

    def used(self) -> None:
        self._end(got_jobs=True)

    def passed(self) -> None:
        """None came: perhaps it was taken meanwhile, perhaps it hides from this worker.

        The next one may try.
        """
        self._end(got_jobs=False)

    def _end(self, *, got_jobs: bool) -> None:
        if self.is_over:
            return
        self.is_over = True
        if self.expiry is not None:
            self.expiry.cancel()
        self.group.wakeup_ended(self, got_jobs=got_jobs)


@dataclass(eq=False, slots=True, kw_only=True)
class WaitGroup:
    """All who wait for one interest, first come first.

    A *round* begins whenever something may have become claimable (`woken_at`). In a round everybody is woken
    once at most: who has claimed since it began is left alone until the next.
    """

    interest: Interest
    on_change: Callable[[], None]  # has the notifier count again
    woken_at: float = NEVER
    answered_at: float = NEVER
    emptied_at: float = NEVER
    shared_at: float = NEVER  # when workers were last told to share what lies ready with them
    stale: bool = True  # it is not known when the next job becomes due
    dirty: bool = False  # the count of this round may have changed
    deducted: bool = False  # the last count was cut by wakeups that were under way
    begun: int = 0  # wakeups so far
    residue: int = 0  # jobs that were left when all had been woken: hidden from every waiter here
    due: asyncio.TimerHandle | None = None
    waiters: dict[Waiter, None] = field(default_factory=dict)
    wakeups: set[Wakeup] = field(default_factory=set)

    def covers(self, queue: str) -> bool:
        """Whether a job in `queue` may be for somebody here."""
        return queue in self.interest.queues or "*" in self.interest.queues

    def notify(self, now: float) -> None:
        """Something may be claimable since `now`: a new round."""
        self.woken_at = now
        self.dirty = True
        self.on_change()

    def join(self, waiter: Waiter, *, fresh_after: float) -> None:
        """Add a waiter; count for it if something happened since its claim, or nothing was counted since
        `fresh_after`. The first to wait is told of in any case: while nobody waits no poll is due."""
        self.waiters[waiter] = None
        if waiter.polled_at < self.woken_at:
            self.dirty = True
        if self.answered_at < fresh_after:
            self.stale = True
        if self.dirty or self.stale or len(self.waiters) == 1:
            self.on_change()

    def leave(self, waiter: Waiter, *, now: float) -> None:
        self.waiters.pop(waiter, None)
        if not self.waiters:
            self.emptied_at = now

    def wants_an_answer(self) -> bool:
        """Whether a count is needed now: for an untried waiter, or for the next due time."""
        return bool(self.waiters) and (self.stale or (self.dirty and self.untried() is not None))

    def claims_uncounted(self) -> bool:
        """Whether the next to be woken claims sooner than a count is there, and nobody is at it already."""
        waiter = None if self.wakeups else self.untried()
        return waiter is not None and waiter.claims_itself

    def untried(self) -> Waiter | None:
        """Who has waited longest of those that have not claimed in this round."""
        return next((waiter for waiter in self.waiters if waiter.polled_at < self.woken_at), None)

    def wake_next(self) -> Wakeup | None:
        """Wake the next untried waiter; None if everybody was woken."""
        waiter = self.untried()
        if waiter is None:
            return None
        del self.waiters[waiter]
        wakeup = Wakeup(group=self)
        self.wakeups.add(wakeup)
        self.begun += 1
        waiter.wakeup.set_result(wakeup)
        return wakeup

    def wakeup_ended(self, wakeup: Wakeup, *, got_jobs: bool) -> None:
        """A woken waiter has claimed.

        Count again if that was for nothing, or if the last count had deducted its job.
        """
        self.wakeups.discard(wakeup)
        if not got_jobs or self.deducted:
            self.recount()

    def recount(self) -> None:
        self.dirty = True
        self.on_change()


def claimable(wanted: Sequence[tuple[Interest, int]]) -> Sequence[Claimable]:
    """For each (interest, how many at most): how many jobs there are, and when the next is due. Runs in a thread."""
    return reads.claimable(wanted, horizon_s=HORIZON_S)


class Notifier:
    """Belongs to the event loop it was made on, which must run. `stop` it with the process."""

    def __init__(self, *, stopping: asyncio.Event, query: Query = claimable, wall: Callable[[], float] = _WALL) -> None:
        self._stopping = stopping
        self._query = query
        self._wall = wall
        self._loop = asyncio.get_running_loop()
        self._groups: dict[Interest, WaitGroup] = {}
        self._holders: dict[Share, Interest] = {}
        self._sharing: set[asyncio.Future[None]] = set()
        self._woken: dict[str, float] = {}
        self._all_woken_at = self._loop.time()
        self._polled_at = NEVER
        self._changed = asyncio.Event()
        self._subscription = hub.current().watch_topics(["work:*", "due:*"], self._on_topics)
        with fields.apart():
            self._task = self._loop.create_task(self._run(), name="jobs: notifier")

    async def wait(
        self, interest: Interest, *, polled_at: float, timeout_s: float | None, claims_itself: bool = False
    ) -> Wakeup | None:
        """Wait until this caller is woken to claim; None when `timeout_s` or the process ended before.

        `polled_at` is the loop's time from just before the caller's last claim, which got nothing (or NEVER): what
        happened since then counts. `claims_itself`: a wakeup is a claim at once, and no message to somebody who may
        claim. The caller ends the wakeup. Cancelling is safe: one that has begun is passed on.
        """
        group = self._group(interest)
        waiter = Waiter(polled_at=polled_at, claims_itself=claims_itself, wakeup=self._loop.create_future())
        if self._stopping.is_set():
            return None
        group.join(waiter, fresh_after=self._loop.time() - POLL_S)
        if polled_at > NEVER:
            self._share(group)
        try:
            await asyncio.wait({waiter.wakeup}, timeout=timeout_s)
            return waiter.wakeup.result() if waiter.wakeup.done() else None
        except asyncio.CancelledError:
            if waiter.wakeup.done() and (wakeup := waiter.wakeup.result()):
                wakeup.passed()
            raise
        finally:
            group.leave(waiter, now=self._loop.time())

    def note_holder(self, share: Share, interest: Interest | None) -> None:
        """Call `share` whenever somebody waits in vain who could take what a worker of this interest was given and has
        not begun; None: it has nothing of that kind."""
        if interest is None:
            self._holders.pop(share, None)
        else:
            self._holders[share] = interest

    def _share(self, group: WaitGroup) -> None:
        """Only workers of the same scope are told: what others hold may be nothing for who waits."""
        now = self._loop.time()
        if not self._holders or now < group.shared_at + SHARE_S:
            return
        group.shared_at = now
        wanted = group.interest
        for share, held in list(self._holders.items()):
            is_alike = (held.owner_id, held.satisfies) == (wanted.owner_id, wanted.satisfies)
            if is_alike and ("*" in held.queues or any(map(group.covers, held.queues))):
                task = asyncio.ensure_future(share())
                self._sharing.add(task)
                task.add_done_callback(self._sharing.discard)

    async def stop(self) -> None:
        """Send everybody away, and end."""
        self._subscription.close()
        self._task.cancel()
        await asyncio.wait({self._task})
        for group in self._groups.values():
            for waiter in list(group.waiters):
                waiter.wakeup.set_result(None)
            if group.due is not None:
                group.due.cancel()
            for wakeup in list(group.wakeups):
                wakeup.passed()

    def _group(self, interest: Interest) -> WaitGroup:
        if interest not in self._groups:
            group = self._groups[interest] = WaitGroup(interest=interest, on_change=self._changed.set)
            woken = [at for queue, at in self._woken.items() if group.covers(queue)]
            group.woken_at = max([self._all_woken_at, *woken])
        return self._groups[interest]

    def _on_topics(self, topics: set[str]) -> None:
        if live.RECONNECTED in topics:
            self._all_woken_at = self._loop.time()
            for group in self._groups.values():
                group.notify(self._all_woken_at)
        for topic in topics:
            kind, _, rest = topic.partition(":")
            if kind == "work":
                self._wake_queue(rest)
            elif kind == "due":
                queue, _, due_ms = rest.rpartition(":")
                self._expect(queue, int(due_ms))

    def _wake_queue(self, queue: str) -> None:
        now = self._woken[queue] = self._loop.time()
        groups = [group for group in self._groups.values() if group.covers(queue)]
        for group in groups:
            group.notify(now)
        self._wake_uncounted(groups)

    def _wake_uncounted(self, groups: Sequence[WaitGroup]) -> None:
        """Wake one of those who claim by themselves before anything is counted: one claim for a change, however many
        groups there are. Who serves everybody comes first: the job may be anybody's."""
        ready = [group for group in groups if group.claims_uncounted()]
        if ready:
            self._wake_next(min(ready, key=lambda group: group.interest.owner_id is not None))

    def _wake_next(self, group: WaitGroup) -> bool:
        """Wake one more, who has a while to claim. Whether there was one."""
        wakeup = group.wake_next()
        if wakeup is not None:
            wakeup.expiry = self._loop.call_later(WAKEUP_S, wakeup.passed)
        return wakeup is not None

    def _expect(self, queue: str, due_ms: int) -> None:
        """A job becomes due at a moment of the database's clock.

        If that is soon, the database says how soon.
        """
        if due_ms / 1000 > self._wall() + HORIZON_S + SKEW_S:
            return
        for group in self._groups.values():
            if group.covers(queue):
                group.stale = True
        self._changed.set()

    async def _run(self) -> None:
        while True:
            try:
                await self._pause()
                await self._count()
            except Exception:
                logger.exception("The notifier could not ask for work; trying again")
                await asyncio.sleep(RETRY_S)
                self._changed.set()

    async def _pause(self) -> None:
        """Wait for a change, or for the poll while anybody waits."""
        waiting = any(group.waiters for group in self._groups.values())
        remaining_s = max(0.0, self._polled_at + POLL_S - self._loop.time()) if waiting else None
        await within(remaining_s, self._changed)
        self._changed.clear()

    async def _count(self) -> None:
        """Count for the groups that want it, for all when the poll is due, and act on the answers."""
        is_poll = self._loop.time() >= self._polled_at + POLL_S
        groups = [group for group in self._groups.values() if group.waiters and (is_poll or group.wants_an_answer())]
        if not groups:
            return
        if is_poll:
            self._polled_at = self._loop.time()
            self._forget_the_abandoned()
        ended = [group.begun - len(group.wakeups) for group in groups]
        for group in groups:
            group.dirty = group.stale = False
        wanted = [(group.interest, len(group.waiters) + len(group.wakeups)) for group in groups]
        try:
            answers = await connections.run(self._query, wanted)
        except BaseException:
            for group in groups:
                group.dirty = group.stale = True
            raise
        for group, answer, ended_before in zip(groups, answers, ended, strict=True):
            self._answered(group, answer, wakeups=group.begun - ended_before, is_poll=is_poll)

    def _answered(self, group: WaitGroup, answer: Claimable, *, wakeups: int, is_poll: bool) -> None:
        group.answered_at = self._loop.time()
        group.residue = min(group.residue, answer.jobs)
        self._arm(group, answer.next_due_in_s)
        # Wakeups that were under way at any moment of the count take a job each: of those that were counted, if they
        # had not claimed yet, else of none; then they cause another count, at once if they are over by now.
        group.deducted = wakeups > 0 and answer.jobs > 0
        if group.deducted and wakeups > len(group.wakeups):
            group.recount()
        # More than what hid from all who wait: then a message was lost.
        is_more = answer.jobs > group.residue or group.answered_at > group.woken_at + NEW_ROUND_S
        if is_poll and answer.jobs > wakeups and is_more:
            group.woken_at = group.answered_at
        for _ in range(answer.jobs - wakeups):
            if not self._wake_next(group):
                group.residue = answer.jobs
                break

    def _arm(self, group: WaitGroup, due_in_s: float | None) -> None:
        if group.due is not None:
            group.due.cancel()
            group.due = None
        if due_in_s is not None:
            # A timer that fires a hair early would cause one count after the other.
            group.due = self._loop.call_later(due_in_s + 0.002, self._due, group)

    def _due(self, group: WaitGroup) -> None:
        """A job is due by now. When the next one is, the next count says."""
        group.stale = True
        group.notify(self._loop.time())
        self._wake_uncounted([group])

    def _forget_the_abandoned(self) -> None:
        since = self._loop.time() - RETENTION_S
        for interest, group in list(self._groups.items()):
            if not group.waiters and not group.wakeups and group.emptied_at < since:
                self._arm(group, None)
                del self._groups[interest]
