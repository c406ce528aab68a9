"""What a request that waits outside of Django is made of: its client, a place of its caller, and Django inside."""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, Final, Protocol, Self, TypeVar

from django.http.response import HttpResponseBase

from core.asgi import Receive, Scope, Send, wait_until_gone
from jobs.errors import TooManyOpen

T = TypeVar("T")


class Connection:
    """Notices that the client goes away, in its block, where nothing else may call `receive`."""

    def __init__(self, receive: Receive) -> None:
        self._gone = asyncio.create_task(wait_until_gone(receive))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._gone.cancel()

    @property
    def is_gone(self) -> bool:
        return self._gone.done()

    async def during(self, work: Coroutine[Any, Any, T]) -> T | None:
        """The result of `work`; None if the client went away first: then the work was canceled."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task, self._gone}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            task.cancel()
            await asyncio.wait({task})


async def within(seconds: float | None, event: asyncio.Event) -> None:
    """Wait for this event, for so many seconds at most; None: for as long as it takes."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


COME_AGAIN_S: Final = 5


class Places:
    """Those that are taken, by whose they are. Of one event loop."""

    def __init__(self) -> None:
        self._taken: Counter[Hashable] = Counter()

    @contextmanager
    def one(self, whose: Hashable, *, most: int, of: str) -> Iterator[None]:
        """Hold a place for the block. Raises TooManyOpen where `whose` has as many as they may; `of` says whose quota
        it is, in its words."""
        if self._taken[whose] >= most:
            raise TooManyOpen(of=of, quota=most, used=self._taken[whose], more=1, retry_after=COME_AGAIN_S)
        self._taken[whose] += 1
        try:
            yield
        finally:
            self._taken[whose] -= 1
            self._taken += Counter()  # without those who have none


# Each request inside of Django holds a thread and, while it reads, a connection of the pool (20 by default).
# A thousand waiters that are woken together call one after the other instead of starving everybody else.
AT_ONCE: Final = 8


class Handler(Protocol):
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

    async def respond(self, scope: Scope, body: IO[bytes]) -> HttpResponseBase:
        """The answer to a request whose body is there."""

    async def send_response(self, response: HttpResponseBase, send: Send) -> None:
        """Send an answer."""


class Django:
    """The application inside, as those who wait use it."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._under_way: set[asyncio.Task[HttpResponseBase]] = set()

    async def call(self, scope: Scope, body: IO[bytes]) -> HttpResponseBase:
        """Have it answer this request. It never learns that the client went away.

        A claim that is under way when the client goes must come to its end, or its jobs would be nobody's
        until their leases run out. A caller that is canceled meanwhile is so at once: Django's handler takes a
        cancellation for its own at times, and the caller would go on for ever.
        """
        task = asyncio.ensure_future(self._call(scope, body))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def _call(self, scope: Scope, body: IO[bytes]) -> HttpResponseBase:
        async with self._gate:
            return await self._handler.respond(scope, body)

    async def send(self, response: HttpResponseBase, send: Send) -> None:
        """Send an answer, and close it where it is read from a file meanwhile."""
        try:
            await self._handler.send_response(response, send)
        finally:
            if response.streaming:
                await asyncio.to_thread(response.close)
