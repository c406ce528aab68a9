"""Turns at the database: a few at once, of each holder one, and holders that wait are served in rotation."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import ParamSpec, TypeVar

from postgres import connections

T = TypeVar("T")
P = ParamSpec("P")


class Turn:
    """What `Turns.of` gives: one call after the other in a thread of the database."""

    def __init__(self) -> None:
        self._work: asyncio.Future[object] | None = None

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """As `connections.run`. Whoever is cancelled stops waiting; the turn lasts until the thread is done."""
        work = asyncio.ensure_future(connections.run(function, *args, **kwargs))
        self._work = work  # type: ignore[assignment]  # of its result nothing is asked
        return await asyncio.shield(work)

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call back when no thread works for it: at once, unless its caller was cancelled meanwhile."""
        if self._work is None or self._work.done():
            callback()
        else:
            self._work.add_done_callback(lambda work: _ended(work, callback))

    def cancel(self) -> None:
        """Wait for the thread no longer. The function runs to its end."""
        if self._work is not None:
            self._work.cancel()


class Turns:
    """`most` at once. A holder is anything that can be a key, such as a socket. Belongs to one event loop."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._running: dict[object, Turn] = {}
        self._waiting: dict[object, deque[asyncio.Future[Turn]]] = {}  # in the order of their next turns

    @asynccontextmanager
    async def of(self, holder: object) -> AsyncIterator[Turn]:
        """Wait for a turn of this holder, and hold it for the length of the block."""
        turn = await self._wait(holder)
        try:
            yield turn
        finally:
            turn.on_end(lambda: self._end(holder))

    def load(self, holder: object) -> int:
        """How many turns this holder has and waits for."""
        return (holder in self._running) + len(self._waiting.get(holder, ()))

    def stop(self) -> None:
        """Wait for no thread any more."""
        for turn in list(self._running.values()):
            turn.cancel()

    async def _wait(self, holder: object) -> Turn:
        mine: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(holder, deque()).append(mine)
        self._grant()
        try:
            return await mine
        except asyncio.CancelledError:
            if mine.cancelled():
                self._leave(holder, mine)
            else:  # granted and cancelled before anybody looked
                self._end(holder)
            raise

    def _grant(self) -> None:
        while self._free and (holder := self._next()) is not None:
            mine = self._waiting[holder].popleft()
            if not self._waiting[holder]:
                del self._waiting[holder]
            if not mine.cancelled():
                self._free -= 1
                self._running[holder] = Turn()
                mine.set_result(self._running[holder])

    def _next(self) -> object | None:
        # Those who have a turn are passed over. They are no more than there are turns, so this is a short look.
        return next((holder for holder in self._waiting if holder not in self._running), None)

    def _end(self, holder: object) -> None:
        del self._running[holder]
        self._free += 1
        if holder in self._waiting:
            self._waiting[holder] = self._waiting.pop(holder)  # behind all others
        self._grant()

    def _leave(self, holder: object, mine: "asyncio.Future[Turn]") -> None:
        waiting = self._waiting.get(holder, deque())
        if mine in waiting:
            waiting.remove(mine)
        if holder in self._waiting and not waiting:
            del self._waiting[holder]


def _ended(work: "asyncio.Future[object]", callback: Callable[[], None]) -> None:
    if not work.cancelled():
        work.exception()  # whoever waited for it is gone, and nobody else looks
    callback()
