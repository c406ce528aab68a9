"""Calling Django from outside: a whole request in, a whole answer out, a few at a time."""

import asyncio
from typing import IO, Final, Protocol

from django.http import HttpResponse
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

    async def send_response(self, response: HttpResponse, send: Send) -> None:
        """Send an answer that does not stream."""


class Django:
    """The application inside, as those who wait use it."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.send = handler.send_response
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._under_way: set[asyncio.Task[HttpResponse]] = set()

    async def call(self, scope: Scope, body: IO[bytes]) -> HttpResponse:
        """Have it answer this request. It never learns that the client went away.

        A claim that is under way when the client goes must come to its end, or its jobs would be nobody's
        until their leases run out. A caller that is canceled meanwhile is so at once: Django's handler takes a
        cancellation for its own at times, and the caller would go on for ever.
        """
        task = asyncio.ensure_future(self._call(scope, body))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def _call(self, scope: Scope, body: IO[bytes]) -> HttpResponse:
        async with self._gate:
            response = await self._handler.respond(scope, body)
        assert isinstance(response, HttpResponse)  # nobody who waits asks for a stream
        return response
