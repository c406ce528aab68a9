"""A fair semaphore around the database: a few permits, one for each holder, and waiting holders in rotation."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import ParamSpec, TypeVar

from postgres import connections

T = TypeVar("T")
P = ParamSpec("P")


class Permit:
    """What `FairSemaphore.acquire` yields: one call after the other in a thread of the database."""

    def __init__(self) -> None:
        self._work: asyncio.Future[object] | None = None

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """As `connections.run`. Whoever is cancelled stops waiting; the permit is held until the thread is done."""
        work = asyncio.ensure_future(connections.run(function, *args, **kwargs))
        self._work = work  # type: ignore[assignment]  # its result is not read
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


class FairSemaphore:
    """`most` at once. A holder is anything that can be a key, such as a socket. Belongs to one event loop."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._running: dict[object, Permit] = {}
        self._waiting: dict[object, deque[asyncio.Future[Permit]]] = {}  # in the order of their next permits

    @asynccontextmanager
    async def acquire(self, holder: object) -> AsyncIterator[Permit]:
        """Wait for a permit of this holder, and hold it for the length of the block."""
        permit = await self._wait(holder)
        try:
            yield permit
        finally:
            permit.on_end(lambda: self._end(holder))

    def load(self, holder: object) -> int:
        return (holder in self._running) + len(self._waiting.get(holder, ()))

    def stop(self) -> None:
        """Wait for no thread any more."""
        for permit in list(self._running.values()):
            permit.cancel()

    async def _wait(self, holder: object) -> Permit:
        granted: asyncio.Future[Permit] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(holder, deque()).append(granted)
        self._grant()
        try:
            return await granted
        except asyncio.CancelledError:
            if granted.cancelled():
                self._leave(holder, granted)
            else:  # granted and cancelled before the holder ran
                self._end(holder)
            raise

    def _grant(self) -> None:
        while self._free and (holder := self._next()) is not None:
            granted = self._waiting[holder].popleft()
            if not self._waiting[holder]:
                del self._waiting[holder]
            if not granted.cancelled():
                self._free -= 1
                self._running[holder] = Permit()
                granted.set_result(self._running[holder])

    def _next(self) -> object | None:
        # Holders of a permit are skipped. They are no more than there are permits, so this is a short scan.
        return next((holder for holder in self._waiting if holder not in self._running), None)

    def _end(self, holder: object) -> None:
        del self._running[holder]
        self._free += 1
        if holder in self._waiting:
            self._waiting[holder] = self._waiting.pop(holder)  # behind all others
        self._grant()

    def _leave(self, holder: object, granted: "asyncio.Future[Permit]") -> None:
        waiting = self._waiting.get(holder, deque())
        if granted in waiting:
            waiting.remove(granted)
        if holder in self._waiting and not waiting:
            del self._waiting[holder]


def _ended(work: "asyncio.Future[object]", callback: Callable[[], None]) -> None:
    if not work.cancelled():
        work.exception()  # whoever waited for it is gone, and nobody else reads it
    callback()
