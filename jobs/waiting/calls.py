"""The calls of one worker's socket, until they are performed."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from jobs.protocol import sessions
from jobs.protocol.messages import Call


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Received:
    """A call, and until when on the loop's clock its answer may wait for jobs. `is_over`: none came until then."""

    call: Call
    until: float
    is_over: bool = False


class Calls:
    """Calls in the order in which they came, for two to perform: one the reports (output, heartbeats), one all others,
    so that a row that is locked holds up no other job's stream or lease. A call waits for those before it that name
    the same job, but for heartbeats of several, which renew what they can. Pieces of output of several jobs are stored
    together (docs/adr/0037)."""

    def __init__(self) -> None:
        self._calls: dict[Received, bool] = {}  # whether it is being performed
        self._changed = asyncio.Event()
        self._is_ended = False

    def __len__(self) -> int:
        """How many wait."""
        return sum(not is_performed for is_performed in self._calls.values())

    def put(self, received: Received) -> None:
        self._calls[received] = False
        self._changed.set()

    def end(self) -> None:
        """No more calls come; those that wait are still given out."""
        self._is_ended = True
        self._changed.set()

    async def next(self, *, reports: bool) -> list[Received]:
        """The call of this sort that waited longest; if that is a piece of output, with those of other jobs. Waits for
        it; none when there is none and no more come. What is given out is to be `done`."""
        while not (taken := list(self._ready(reports=reports))):
            if self._is_ended and not any(self._waiting(reports=reports)):
                break
            self._changed.clear()
            await self._changed.wait()
        self._calls |= dict.fromkeys(taken, True)
        return taken

    def done(self, performed: list[Received]) -> None:
        for received in performed:
            del self._calls[received]
        self._changed.set()

    def _waiting(self, *, reports: bool) -> Iterator[Received]:
        for received, is_performed in self._calls.items():
            if not is_performed and sessions.is_report(received.call) == reports:
                yield received

    def _ready(self, *, reports: bool) -> Iterator[Received]:
        named: set[int] = set()  # by the calls before
        are_pieces: bool | None = None  # None: none was found yet
        for received, is_performed in self._calls.items():
            call, jobs = received.call, sessions.jobs_of(received.call)
            is_piece = sessions.output_of(call) is not None
            is_next = are_pieces is None or (are_pieces and is_piece)
            is_free = sessions.is_of_many_heartbeats(call) or named.isdisjoint(jobs)
            if is_next and is_free and not is_performed and sessions.is_report(call) == reports:
                are_pieces = is_piece
                yield received
            named |= jobs
