"""Who waits for the same jobs, and who is woken next.

Plain data of one event loop; the notifier counts and decides.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from jobs.queries.reads import Interest

NEVER = float("-inf")


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
