"""Workers that are connected count as alive, however long they have nothing to say."""

import asyncio
import logging
from collections import Counter
from typing import Final

from jobs import operations
from observing import fields
from postgres import connections

logger = logging.getLogger("jobs")
EVERY_S: Final = 30.0  # a third of WORKER_ALIVE_S: two misses in a row do no harm


class Seen:
    """Notes all connected workers of this process as seen, in one statement for all.

    Belongs to one event loop.
    """

    def __init__(self, *, every_s: float = EVERY_S) -> None:
        self._every_s = every_s
        self._connected: Counter[int] = Counter()
        self._task: asyncio.Task[None] | None = None

    def came(self, worker_id: int) -> None:
        self._connected[worker_id] += 1
        if self._task is None:
            with fields.apart():
                self._task = asyncio.create_task(self._note_for_ever(), name="jobs: seen")

    def went(self, worker_id: int) -> None:
        self._connected[worker_id] -= 1
        if not self._connected[worker_id]:
            del self._connected[worker_id]

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _note_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            try:
                if self._connected:
                    await connections.run(operations.seen, sorted(self._connected))
            except Exception:
                logger.exception("Could not note which workers are connected; trying again")
