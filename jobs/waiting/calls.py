"""The calls of one worker's socket, until they are performed."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from jobs.protocol import sessions
from jobs.protocol.messages import Call
from jobs.protocol.verbs import Heartbeat, Heartbeats, Output


class Sort(Enum):
    """Who performs a call. Each sort is performed by itself, so that a row that is locked, or much work, holds up no
    other job's stream, and no other job's lease."""

    OUTPUT = auto()
    """Pieces of output, which the event loop stores, those of several jobs together (docs/adr/0037)."""
    WRITE = auto()
    """Output that takes a thread, perhaps to wait for one locked row after the other."""
    REPORT = auto()
    """Heartbeats."""
    OTHER = auto()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Received:
    """A call, and until when on the loop's clock its answer may wait for jobs. `is_over`: none came until then."""

    call: Call
    until: float
    is_over: bool = False


class Calls:
    """Calls in the order in which they came. One waits for those before it that name the same job, but for heartbeats
    of several, which renew what they can."""

    def __init__(self) -> None:
        self._calls: dict[Received, Sort | None] = {}  # None: it is being performed
        self._aside: set[Received] = set()  # of those being performed: they wait anew
        self._changed = asyncio.Event()
        self._is_ended = False
        self._is_abandoned = False

    def __len__(self) -> int:
        """How many wait."""
        return sum(sort is not None for sort in self._calls.values())

    def put(self, received: Received) -> None:
        if not self._is_abandoned:
            self._calls[received] = _sort(received.call)
            self._changed.set()

    def end(self) -> None:
        """No more calls come; those that wait are still given out."""
        self._is_ended = True
        self._changed.set()

    async def next(self, sort: Sort) -> list[Received]:
        """The call of this sort that waited longest; if that is a piece of output, with those of other jobs. Waits for
        it; none when there is none and no more come. What is given out is to be `done`."""
        while not (taken := list(self._ready(sort))):
            if self._is_ended and not self._calls:
                break
            self._changed.clear()
            await self._changed.wait()
        self._calls |= dict.fromkeys(taken)
        return taken

    def set_aside(self, received: Received) -> None:
        """Let a piece of output, which was given out, wait at its place for a thread, once it is `done` here."""
        self._aside.add(received)

    def done(self, performed: list[Received]) -> None:
        """These were performed, but for those set aside."""
        for received in performed:
            if received not in self._aside:
                self._calls.pop(received, None)
            elif not self._is_abandoned:
                self._calls[received] = Sort.WRITE
        self._aside.difference_update(performed)
        self._changed.set()

    def abandon(self) -> None:
        """Nothing more is performed, what comes from now on included."""
        self._is_abandoned = True
        self._calls.clear()
        self.end()

    def _ready(self, wanted: Sort) -> Iterator[Received]:
        if wanted not in self._calls.values():
            return  # as mostly, for those who wait: each call that comes wakes them all
        named: set[int] = set()  # by the calls before
        are_pieces: bool | None = None  # None: none was found yet
        for received, sort in self._calls.items():
            call, jobs = received.call, sessions.jobs_of(received.call)
            is_piece = isinstance(call.body, Output)
            is_free = isinstance(call.body, Heartbeats) or named.isdisjoint(jobs)
            if sort is wanted and is_free and (are_pieces is None or (are_pieces and is_piece)):
                are_pieces = is_piece
                yield received
            named |= jobs


def _sort(call: Call) -> Sort:
    if isinstance(call.body, Output):
        return Sort.OUTPUT
    return Sort.REPORT if isinstance(call.body, Heartbeat | Heartbeats) else Sort.OTHER
