"""Many requests, one transaction: those that come while one batch commits are stored, or counted, by the next."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from django.db import DataError, IntegrityError

from observing import fields
from postgres import connections
from postgres.reachability import is_away
from webhooks.domain.deliveries import Source
from webhooks.errors import Busy
from webhooks.operations.ingest import Kept, Refused
from webhooks.queries.inbox import NewDelivery

# In one transaction. Past a few dozen the commit is no longer what costs.
MOST: Final = 64
MOST_BYTES: Final = 8 << 20
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
        while self._waiting and len(batch) < MOST and size < MOST_BYTES:
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
