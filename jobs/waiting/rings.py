"""Who waits for the same thing, and whose turn it is.

Plain data of one event loop; the bell asks and decides.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from jobs.queries.reads import Interest

NEVER = float("-inf")


@dataclass(eq=False, slots=True, kw_only=True)
class Waiter:
    """Somebody who found nothing when they asked, at `asked_at` on the loop's clock (NEVER: they did not ask
    yet)."""

    asked_at: float
    turn: "asyncio.Future[Turn | None]"


@dataclass(eq=False, slots=True, kw_only=True)
class Turn:
    """The right, and the duty, of one woken waiter to ask: `used` if jobs came, `passed` if none did.

    A turn that nobody ends passes by itself after a while, so that a silent worker holds nobody up.
    """

    ring: "Ring"
    expiry: asyncio.TimerHandle | None = None
    is_over: bool = False

    def used(self) -> None:
        """Jobs came."""
        self._end(found=True)

    def passed(self) -> None:
        """None came: perhaps it was taken meanwhile, perhaps it hides from this worker.

        The next one may try.
        """
        self._end(found=False)

    def _end(self, *, found: bool) -> None:
        if self.is_over:
            return
        self.is_over = True
        if self.expiry is not None:
            self.expiry.cancel()
        self.ring.turn_ended(self, found=found)


@dataclass(eq=False, slots=True, kw_only=True)
class Ring:
    """All who wait for one interest, first come first.

    A *round* begins whenever something may have become claimable (`rung_at`). In a round everybody is woken
    once at most: who has asked since it began knows what there is, and is left alone until the next.
    """

    interest: Interest
    news: Callable[[], None]  # tells the bell that there may be something to ask
    rung_at: float = NEVER
    answered_at: float = NEVER
    emptied_at: float = NEVER
    stale: bool = True  # it is not known when the next job becomes due
    dirty: bool = False  # the count of this round may have changed
    deducted: bool = False  # the last count was cut by turns that were under way
    residue: int = 0  # jobs that were left when all had been woken: hidden from every waiter here
    due: asyncio.TimerHandle | None = None
    waiters: dict[Waiter, None] = field(default_factory=dict)
    turns: set[Turn] = field(default_factory=set)

    def hears(self, queue: str) -> bool:
        """Whether a job in `queue` may be for somebody here."""
        return queue in self.interest.queues or "*" in self.interest.queues

    def ring(self, now: float) -> None:
        """Something may be claimable since `now`: a new round."""
        self.rung_at = now
        self.dirty = True
        self.news()

    def join(self, waiter: Waiter, *, fresh_after: float) -> None:
        """Add a waiter; ask for them if something happened since they asked, or nobody has asked since
        `fresh_after`."""
        self.waiters[waiter] = None
        if waiter.asked_at < self.rung_at:
            self.dirty = True
        if self.answered_at < fresh_after:
            self.stale = True
        if self.dirty or self.stale:
            self.news()

    def leave(self, waiter: Waiter, *, now: float) -> None:
        """Remove a waiter, if it is still there."""
        self.waiters.pop(waiter, None)
        if not self.waiters:
            self.emptied_at = now

    def wants_an_answer(self) -> bool:
        """Whether the database must be asked now: for an untried waiter, or for the next due time."""
        return bool(self.waiters) and (self.stale or (self.dirty and self.untried() is not None))

    def untried(self) -> Waiter | None:
        """Who has waited longest of those that have not asked in this round."""
        return next((waiter for waiter in self.waiters if waiter.asked_at < self.rung_at), None)

    def wake_next(self) -> Turn | None:
        """Give the turn to the next untried waiter; None if everybody has had one."""
        waiter = self.untried()
        if waiter is None:
            return None
        del self.waiters[waiter]
        turn = Turn(ring=self)
        self.turns.add(turn)
        waiter.turn.set_result(turn)
        return turn

    def turn_ended(self, turn: Turn, *, found: bool) -> None:
        """A woken waiter has asked.

        Count again if that was for nothing, or if the last count had deducted its job.
        """
        self.turns.discard(turn)
        if not found or self.deducted:
            self.dirty = True
            self.news()
