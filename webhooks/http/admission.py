"""What one process keeps of requests from their coming to their commit: tokens, room for bodies, and batches.

How much one address may send to one source (`webhooks.limits`) is not asked of the database for each request: tokens
are taken from the limit in blocks that grow while an address is busy, and spent from memory. What is taken is taken, so
the limit holds over all processes; what is not spent within seconds is given up, never granted twice. Many requests are
one transaction: those that come while one batch commits are stored, or counted, by the next.
"""

import asyncio
import math
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from django.db import DataError, IntegrityError

from core import asgi
from core.asgi import Receive
from observing import fields
from postgres import connections
from postgres.reachability import is_away
from ratelimits import operations as ratelimits
from webhooks.domain.deliveries import Source
from webhooks.errors import Busy, TooLarge, TooSlow
from webhooks.operations.ingest import Kept, Refused
from webhooks.queries.inbox import NewDelivery

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
                    piece, self.is_read = await asgi.piece(self._receive)
            except TimeoutError:
                raise TooSlow(seconds=round(in_time_s), size=size) from None
            size += len(piece)
            if size > self.limit:
                raise TooLarge(limit=self.limit)
            grow(len(piece))
            pieces.append(piece)
        return b"".join(pieces)


# In one transaction. Past a few dozen the commit is no longer what costs.
BATCH: Final = 64
BATCH_BYTES: Final = 8 << 20
# Waiting to be stored. Beyond that the senders get 503 and come again.
MOST_WAITING: Final = 2000
MOST_WAITING_BYTES: Final = 128 << 20

_Waiting = tuple[NewDelivery, "asyncio.Future[Kept]"]


class BatchWriter:
    """Stores what the requests of one event loop bring. Nobody is answered before what was theirs has committed."""

    def __init__(self, keep: Callable[[Sequence[NewDelivery]], list[Kept]]) -> None:
        self._keep = keep
        self._waiting: deque[_Waiting] = deque()
        self._waiting_bytes = 0
        self._work: asyncio.Task[None] | None = None

    async def put(self, delivery: NewDelivery) -> Kept:
        """Store one, and say what became of it once that is committed. Raises Busy, or the database's error."""
        if len(self._waiting) >= MOST_WAITING or self._waiting_bytes > MOST_WAITING_BYTES:
            raise Busy
        answer: asyncio.Future[Kept] = asyncio.get_running_loop().create_future()
        self._waiting.append((delivery, answer))
        self._waiting_bytes += len(delivery.body)
        if self._work is None or self._work.done():
            with fields.apart():
                self._work = asyncio.create_task(self._store_all())
        return await answer

    async def _store_all(self) -> None:
        while self._waiting:
            await self._store(self._next())

    def _next(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        size = 0
        while self._waiting and len(batch) < BATCH and size < BATCH_BYTES:
            batch.append(self._waiting.popleft())
            size += len(batch[-1][0].body)
        self._waiting_bytes -= size
        return batch

    async def _store(self, batch: list[_Waiting]) -> None:
        try:
            kept = await connections.run(self._keep, [delivery for delivery, _ in batch])
        except (DataError, IntegrityError) as error:
            if len(batch) == 1:
                _fail(batch, error)
                return
            for one in batch:  # one of them is not storable: the others are not to suffer for it
                await self._store([one])
        except Exception as error:
            _fail(batch, error)
        else:
            for (_, answer), result in zip(batch, kept, strict=True):
                if not answer.done():  # whoever asked may be gone
                    answer.set_result(result)


def _fail(batch: list[_Waiting], error: Exception) -> None:
    for _, answer in batch:
        if not answer.done():
            answer.set_exception(error)


class Refusals:
    def __init__(self, count: Callable[[Sequence[Refused]], None]) -> None:
        self._count = count
        self._gathered: dict[tuple[Source, str], Refused] = {}
        self._writing = asyncio.Lock()

    async def count(self, one: Refused) -> None:
        """Count one; it is committed when this returns. Raises the database's error."""
        self._add(one)
        async with self._writing:  # whoever comes in counts for all who wait behind
            if self._gathered:
                gathered, self._gathered = self._gathered, {}
                try:
                    await connections.run(self._count, [gathered[key] for key in sorted(gathered)])
                except Exception as error:
                    for each in gathered.values() if is_away(error) else ():  # the next to come counts them too
                        self._add(each)
                    raise

    def _add(self, one: Refused) -> None:
        key = (one.source, one.reason)
        before = self._gathered.get(key)
        self._gathered[key] = replace(one, times=before.times + one.times) if before else one
