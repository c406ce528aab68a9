"""Calling Django from outside: a whole request in, a whole answer out, a few at a time."""

import asyncio
from typing import IO, Final, Protocol

from django.http.response import HttpResponseBase

from core.asgi import Receive, Scope, Send

# Each request inside of Django holds a thread and, while it reads, a connection of the pool (20 by default).
# A thousand waiters that are woken together call one after the other instead of starving everybody else.
AT_ONCE: Final = 8


class Handler(Protocol):
    """Django's part of the server."""

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
