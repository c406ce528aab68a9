"""How much one address may send to one source (`webhooks.limits`), without asking the database for each request.

Tokens are taken from the limit in blocks that grow while an address is busy, and spent from memory. What is taken is
taken, so the limit holds over all processes; what is not spent within seconds is given up, never granted twice.
"""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from postgres import connections
from ratelimits import operations as ratelimits

LARGEST_BLOCK: Final = 64
KEPT_S: Final = 10.0
# A denial is remembered for a moment, so that a flood is answered from memory.
LONGEST_DENIAL_S: Final = 1.0
MOST_ADDRESSES: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """How many requests may go on; or, if none may, after how long to ask again."""

    count: int
    retry_after: timedelta = timedelta(0)


Ask = Callable[[str, str, int], Admission]


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
        granted = await connections.run(self._ask, limit, address, wanted)
        now = time.monotonic()
        if granted.count:
            block.remaining, block.size, block.until = granted.count, granted.count, now + KEPT_S
        else:
            wait_s = granted.retry_after.total_seconds()
            block.retry_at, block.denied_until = now + wait_s, now + min(wait_s, LONGEST_DENIAL_S)


def admit(limit: str, address: str, wanted: int) -> Admission:
    """Take so many tokens of a limit for this address; one, if that many are not left."""
    if wanted > 1 and ratelimits.limit(limit, key=address, count=wanted):
        return Admission(count=wanted)
    answer = ratelimits.limit(limit, key=address)
    if answer:
        return Admission(count=1)
    return Admission(count=0, retry_after=answer.retry_after or timedelta(seconds=1))
