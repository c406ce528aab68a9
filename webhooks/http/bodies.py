"""Reading a body: bounded in bytes and in time, and all of them together in memory."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from jobs.waiting.asking import Receive
from webhooks.errors import Busy, TooLarge, TooSlow

READ_WITHIN_S: Final = 30.0
DRAIN_S: Final = 3.0
# Bodies that one process holds at once while they are read and judged: ten of GitHub's largest.
MOST_BYTES: Final = 256 << 20


class ClientGone(Exception):
    """Whoever sent the request did not wait for its end."""


class Room:
    """Memory for bodies, of one process."""

    def __init__(self) -> None:
        self._taken = 0

    @contextmanager
    def reserve(self, size: int) -> Iterator[None]:
        """Hold so many bytes for the length of the block. Raises Busy: there is no room."""
        if self._taken + size > MOST_BYTES:
            raise Busy
        self._taken += size
        try:
            yield
        finally:
            self._taken -= size


class Body:
    """The body of one request, read once."""

    def __init__(self, receive: Receive, *, limit: int) -> None:
        self.limit = limit
        self.is_read = False
        self._receive = receive

    async def read(self) -> bytes:
        """All of it. Raises TooLarge as soon as more than the limit came, TooSlow, ClientGone."""
        pieces: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(READ_WITHIN_S):
                while not self.is_read:
                    piece = await self._next()
                    size += len(piece)
                    if size > self.limit:
                        raise TooLarge(limit=self.limit)
                    pieces.append(piece)
        except TimeoutError:
            raise TooSlow(seconds=int(READ_WITHIN_S)) from None
        return b"".join(pieces)

    async def drain(self) -> None:
        """Let what is still sent pass, for three seconds at most."""
        with suppress(TimeoutError, ClientGone):
            async with asyncio.timeout(DRAIN_S):
                while not self.is_read:
                    await self._next()

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        self.is_read = not message.get("more_body")
        piece: bytes = message.get("body", b"")
        return piece
