"""Reading a body: bounded in bytes and in time, and all of them together in memory."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from core import bodies
from core.asgi import Receive
from webhooks.domain.names import Source
from webhooks.errors import Busy, TooLarge, TooSlow

READ_WITHIN_S: Final = 30.0
# A body may be late by this much of what the least rate brings: 25 MiB come in time at 1 MiB/s, one byte does not hold
# anything for half a minute.
GRACE_S: Final = 5.0
LEAST_RATE: Final = 64 << 10  # bytes a second
# Bodies that one process holds at once while they are read and judged: ten of GitHub's largest. Of them for one source
# less than half, so that no two fill it for the others; and for one address half of that.
MOST_BYTES: Final = 256 << 20
MOST_OF_SOURCE: Final = 96 << 20
MOST_OF_ADDRESS: Final = 48 << 20


class Room:
    """Memory for bodies, of one process: taken by what has arrived, never by what was announced."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()

    @contextmanager
    def of(self, source: Source, address: str) -> Iterator["Held"]:
        """What one body takes, for the length of the block."""
        held = Held(self._taken, {"all": MOST_BYTES, f"source {source}": MOST_OF_SOURCE, address: MOST_OF_ADDRESS})
        try:
            yield held
        finally:
            held.give_back()


class Held:
    """What one body takes of the room, of its source's share and of its address's."""

    def __init__(self, taken: Counter[str], shares: dict[str, int]) -> None:
        self._taken = taken
        self._shares = shares
        self._size = 0

    def grow(self, size: int) -> None:
        if any(self._taken[share] + size > most for share, most in self._shares.items()):
            raise Busy
        self._add(size)

    def give_back(self) -> None:
        self._add(-self._size)

    def _add(self, size: int) -> None:
        self._size += size
        for share in self._shares:
            self._taken[share] += size
            if not self._taken[share]:
                del self._taken[share]  # addresses are many


class Body:
    def __init__(self, receive: Receive, *, limit: int, grace_s: float = GRACE_S, least_rate: int = LEAST_RATE) -> None:
        self.limit = limit
        self.is_read = False
        self._receive = receive
        self._grace_s = grace_s
        self._least_rate = least_rate

    async def read(self, held: Held) -> bytes:
        """All of it. Raises TooLarge as soon as more than the limit came, TooSlow as soon as less came than the least
        rate brings, Busy where there is no room for what came, ClientGone."""
        began = asyncio.get_running_loop().time()
        pieces: list[bytes] = []
        size = 0
        while not self.is_read:
            in_time_s = min(self._grace_s + size / self._least_rate, READ_WITHIN_S)
            try:
                async with asyncio.timeout_at(began + in_time_s):
                    piece = await self._next()
            except TimeoutError:
                raise TooSlow(seconds=round(in_time_s), size=size) from None
            size += len(piece)
            if size > self.limit:
                raise TooLarge(limit=self.limit)
            held.grow(len(piece))
            pieces.append(piece)
        return b"".join(pieces)

    async def _next(self) -> bytes:
        part, self.is_read = await bodies.piece(self._receive)
        return part
