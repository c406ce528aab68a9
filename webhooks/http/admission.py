"""How much one address may send to one source (`webhooks.limits`), without asking the database for each request.

Tokens are taken from the limit in blocks that grow while an address is busy, and spent from memory. What is taken is
taken, so the limit holds over all processes; what is not spent within seconds is given up, never granted twice.
"""

import asyncio
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from core import asgi
from core.asgi import Receive
from postgres import connections
from ratelimits import operations as ratelimits
from webhooks.domain.deliveries import Source
from webhooks.errors import Busy, TooLarge, TooSlow

LARGEST_BLOCK: Final = 64
KEPT_S: Final = 10.0
# A denial is remembered for a moment, so that a flood is answered from memory.
LONGEST_DENIAL_S: Final = 1.0
MOST_ADDRESSES: Final = 4096


# How many requests may go on; or, if none may, after how long to ask again.
Ask = Callable[[str, str, int], tuple[int, timedelta]]


@dataclass(slots=True)
class _Block:
    remaining: int = 0
    size: int = 0
    until: float = -math.inf
    denied_until: float = -math.inf
    retry_at: float = 0.0
    refilling: asyncio.Lock = field(default_factory=asyncio.Lock)

    def has_tokens(self, now: float) -> bool:
        return self.remaining > 0 and now < self.until


class Admissions:
    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._blocks: OrderedDict[tuple[str, str], _Block] = OrderedDict()

    async def admit(self, limit: str, address: str) -> timedelta | None:
        """Let one request go on (None), or say after how long it may come again. Raises the database's error."""
        block = self._block(limit, address)
        while True:
            now = time.monotonic()
            if block.has_tokens(now):
                block.remaining -= 1
                return None
            if now < block.denied_until:
                return timedelta(seconds=block.retry_at - now)
            async with block.refilling:
                now = time.monotonic()
                if not block.has_tokens(now) and now >= block.denied_until:
                    await self._refill(block, limit, address)

    def _block(self, limit: str, address: str) -> _Block:
        block = self._blocks.setdefault((limit, address), _Block())
        self._blocks.move_to_end((limit, address))
        if len(self._blocks) > MOST_ADDRESSES:
            self._blocks.popitem(last=False)
        return block

    async def _refill(self, block: _Block, limit: str, address: str) -> None:
        # Twice the last if that was spent in time; a quiet address asks for one.
        wanted = min(2 * block.size, LARGEST_BLOCK) if block.size and time.monotonic() < block.until else 1
        count, retry_after = await connections.run(self._ask, limit, address, wanted)
        now = time.monotonic()
        if count:
            block.remaining, block.size, block.until = count, count, now + KEPT_S
        else:
            wait_s = retry_after.total_seconds()
            block.retry_at, block.denied_until = now + wait_s, now + min(wait_s, LONGEST_DENIAL_S)


def admit(limit: str, address: str, wanted: int) -> tuple[int, timedelta]:
    """Take so many tokens of a limit for this address; one, if that many are not left."""
    if wanted > 1 and ratelimits.limit(limit, key=address, count=wanted):
        return wanted, timedelta(0)
    answer = ratelimits.limit(limit, key=address)
    return int(answer.ok), answer.retry_after or timedelta(seconds=1)


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
Grow = Callable[[int], None]


class Room:
    """Memory for bodies, of one process: taken by what has arrived, never by what was announced."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()

    @contextmanager
    def of(self, source: Source, address: str) -> Iterator[Grow]:
        """What has one body take more, for the length of the block: of the room, of its source's share and of its
        address's. Called, it raises Busy where there is none."""
        shares = {"all": MOST_BYTES, f"source {source}": MOST_OF_SOURCE, address: MOST_OF_ADDRESS}
        held: Counter[str] = Counter()

        def grow(size: int) -> None:
            if any(self._taken[share] + size > most for share, most in shares.items()):
                raise Busy
            for counted in (self._taken, held):
                counted.update(dict.fromkeys(shares, size))

        try:
            yield grow
        finally:
            self._taken -= held  # without those that have none: addresses are many


class Body:
    def __init__(self, receive: Receive, *, limit: int, grace_s: float = GRACE_S, least_rate: int = LEAST_RATE) -> None:
        self.limit = limit
        self.is_read = False
        self._receive = receive
        self._grace_s = grace_s
        self._least_rate = least_rate

    async def read(self, grow: Grow) -> bytes:
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
            grow(len(piece))
            pieces.append(piece)
        return b"".join(pieces)

    async def _next(self) -> bytes:
        part, self.is_read = await asgi.piece(self._receive)
        return part
