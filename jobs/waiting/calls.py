"""The calls of one worker's socket, until they are performed."""

import asyncio
from collections import deque
from dataclasses import dataclass

from jobs.protocol import sessions
from jobs.protocol.messages import Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A call, and until when on the loop's clock its answer may wait for jobs. `is_over`: none came until then."""

    call: Call
    until: float
    is_over: bool = False


class Calls:
    """Calls in the order in which they came. While one is performed others come: pieces of output among them, which
    need nothing of one another, are then stored together (docs/adr/0037)."""

    def __init__(self) -> None:
        self._waiting: deque[Received] = deque()
        self._changed = asyncio.Event()
        self._is_ended = False

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, received: Received) -> None:
        self._waiting.append(received)
        self._changed.set()

    def end(self) -> None:
        """No more calls come; those that wait are still given out."""
        self._is_ended = True
        self._changed.set()

    async def next(self) -> list[Received]:
        """The call that waited longest; if that is a piece of output, with those right behind it, one for each job.
        Waits for it; none when there is none and no more come."""
        while not self._waiting and not self._is_ended:
            self._changed.clear()
            await self._changed.wait()
        taken: list[Received] = []
        jobs: set[int | None] = set()  # whose output was taken; None: something else was
        while self._waiting:
            job = sessions.output_of(self._waiting[0].call)
            if taken and (job in {None, *jobs} or None in jobs):
                break
            taken.append(self._waiting.popleft())
            jobs.add(job)
        return taken
