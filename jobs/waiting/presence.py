"""Who is there: a web process reports every few seconds that workers reach it (docs/adr/0042), and workers that are
connected count as alive, however long they have nothing to say."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

from django.conf import settings

from jobs import operations
from jobs.domain import presence
from jobs.domain.presence import Part
from jobs.operations.workers import PROCESSES_TOPIC, Presence
from jobs.waiting.requests import within
from live import hub
from observing import fields
from postgres import connections
from postgres.reachability import note_trouble

logger = logging.getLogger("jobs")
# For so long a process that starts waits for its first beat. Without a database it serves all the same, and says so.
BEGIN_WITHIN_S: Final = 5.0
END_WITHIN_S: Final = 2.0
SEEN_EVERY_S: Final = 30.0  # a third of WORKER_ALIVE_S: two misses in a row do no harm

Run = Callable[[Callable[[], None]], Awaitable[None]]


class Beats:
    """The beats of this process. A beat goes the ways that calls of workers go: the loop turns, a thread of those that
    serve sockets is free, then one of those that serve requests, and a connection of theirs answers.

    Belongs to one event loop. `begin` it before the first request, `stop` it after the last.
    """

    def __init__(self, *, in_a_request_thread: Run) -> None:
        self._in_a_request_thread = in_a_request_thread
        self._presence = Presence(part=Part.WEB)
        self._every_s = presence.beat_s(settings.JOBFARM["LEASE_S"])
        self._stopping = asyncio.Event()
        self._first = asyncio.Event()
        self._is_noted = False
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Begin, and wait for the first beat, for some seconds at most."""
        self._task = asyncio.create_task(self._beat_for_ever(), name="jobs: beats")
        await within(BEGIN_WITHIN_S, self._first)

    async def stop(self) -> None:
        """End, and report that if the database is reachable."""
        if self._task is None:
            return
        self._stopping.set()
        await asyncio.wait({self._task}, timeout=END_WITHIN_S)
        self._task.cancel()
        await asyncio.wait({self._task})
        if self._is_noted:
            await self._end()

    async def _beat_for_ever(self) -> None:
        while not self._stopping.is_set():
            self._is_noted = await self._beat()
            self._first.set()
            if self._is_noted:
                hub.touch_here({PROCESSES_TOPIC})
            await within(self._every_s, self._stopping)

    async def _beat(self) -> bool:
        try:
            await connections.run(_nothing)
            await self._in_a_request_thread(self._presence.beat)
        except Exception as error:
            note_trouble(logger, "Could not note that this process hears workers", error)
            return False
        return True

    async def _end(self) -> None:
        try:
            async with asyncio.timeout(END_WITHIN_S):
                await self._in_a_request_thread(self._presence.end)
        except Exception as error:
            note_trouble(logger, "Could not note that this process ends", error)


def _nothing() -> None:
    """What only has to come about."""


class Seen:
    """Notes all connected workers of this process as seen, in one statement for all.

    Belongs to one event loop.
    """

    def __init__(self, *, every_s: float = SEEN_EVERY_S) -> None:
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
