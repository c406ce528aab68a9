"""The workers of a cluster, as its dispatcher has them: forked when they are needed, given work, and replaced."""

import enum
import logging
import os
import signal
import socket
import time
import uuid
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from observing.logs import LATEST_ERRORS
from observing.numbers import FunctionCounts
from scheduling.cluster import django_q2, process_group, worker
from scheduling.domain.calls import Kind
from scheduling.queries.functions import Dispatch, Holder

log = logging.getLogger(__name__)
_FORK = get_context("fork")

NEEDLESS_S = 60.0  # a second worker that was free for so long ends
LONG_S = 1.0  # who runs one mutation for so long is replaced for that time
WAITING_S = 2 * worker.BUDGET_S  # what a worker was sent and has not begun by then is taken back
STUCK_S = 5.0  # a free worker takes what it is sent within a moment: one that did not is frozen
STARTING_S = 60.0
AGAIN_S = 5.0  # after a fork for which no process, memory or descriptor was left
# Long enough that no worker waits for the next look into the queue (1 to 5 ms), short enough that what is more urgent
# waits no longer than this behind what was dispatched before it.
AHEAD_S = 0.05
MOST = 32
FIRST = 4


@dataclass(slots=True)
class Pace:
    """How many functions (`size`) a worker does within AHEAD_S, by what the last one did."""

    size: int = FIRST

    def measure(self, *, done: int, seconds: float) -> None:
        if done and seconds > 0:
            self.size = max(1, min(ceil(done / seconds * AHEAD_S), MOST))


class Stage(enum.Enum):
    STARTING = enum.auto()
    FREE = enum.auto()
    BUSY = enum.auto()
    LEAVING = enum.auto()


@dataclass(slots=True, kw_only=True, eq=False)
class Worker:
    """One worker: its process, our end of the line to it, its state in shared memory, and what it was sent."""

    place: int
    by: Holder
    process: Any
    line: Connection
    state: Any
    stage: Stage = Stage.STARTING
    since: float = field(default_factory=time.monotonic)
    batch: list[Dispatch] = field(default_factory=list)

    def become(self, stage: Stage) -> None:
        self.stage, self.since = stage, time.monotonic()

    def leave(self) -> None:
        self.line.close()
        self.become(Stage.LEAVING)

    def is_hopeless(self) -> bool:
        """Whether it neither takes what it was sent, nor ends its action in time, nor gets started."""
        now = time.monotonic()
        longest = {Stage.STARTING: STARTING_S, Stage.BUSY: STUCK_S}.get(self.stage, now)
        is_stuck = not self.state.has_taken and now - self.since > longest
        return is_stuck or 0 < self.state.deadline < now

    def is_long(self) -> bool:
        return bool(self.state.function and self.state.function_since < time.monotonic() - LONG_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Handback:
    """What has left a worker's hands: what it began, in so many seconds, and what it did not begin."""

    begun: Sequence[Dispatch]
    rest: Sequence[Dispatch]
    seconds: float


class Pool:
    """Up to `size` workers, and for mutations as many again that stand in for those that run one for long.

    One is free, as long as there are not as many as there may be: the next is forked when the last one gets something,
    and one that was not needed for a while goes.
    """

    def __init__(self, *, cluster_id: uuid.UUID, kind: Kind, size: int, counts: FunctionCounts) -> None:
        self._cluster_id, self._kind, self._counts = cluster_id, kind, counts
        self.size, self._spares = size, places(kind, size) - size
        self.workers: list[Worker] = []
        self.sent = 0  # tasks so far
        self._forked, self._fork_at = 0, 0.0
        self._is_stopping = False
        self.died: list[Holder] = []
        self.fatal: list[tuple[int, Holder]] = []  # functions, and the processes that died while they ran them

    def free(self) -> list[Worker]:
        return [one for one in self.workers if one.stage is Stage.FREE]

    def busy(self) -> list[Worker]:
        return [one for one in self.workers if one.stage is Stage.BUSY]

    def in_hands(self) -> list[int]:
        return [dispatch.id for one in self.workers for dispatch in one.batch]

    def lines(self) -> list[int]:
        """Readable when a worker asks for more, or has ended."""
        return [one.line.fileno() for one in self.workers if one.stage is not Stage.LEAVING]

    def send(self, to: Worker, work: list[Dispatch] | dict[str, Any]) -> None:
        to.state.has_taken, to.state.begun = False, 0
        to.batch = work if isinstance(work, list) else []
        to.become(Stage.BUSY)
        self.sent += 1
        try:
            to.line.send(work)
        except OSError:  # it has died, which is seen at once
            to.leave()

    def collect(self, readable: Collection[int]) -> Iterator[Handback]:
        """What workers hand back: those that ask for more, those that ended, and what waits behind something long."""
        for one in list(self.workers):
            if one.is_hopeless():
                log.error("A worker did not end in time, or took nothing: process %s is killed", one.process.pid)
                one.process.kill()
                one.process.join()
            if not one.process.is_alive():
                yield self._remove(one)
            elif one.stage is not Stage.LEAVING and one.line.fileno() in readable:
                yield self._receive(one)
            elif len(one.batch) > one.state.begun > 0 and time.monotonic() > one.since + WAITING_S:
                yield _take_back(one)

    def fit(self) -> None:
        """Fork a worker if none is free and one is missing; let one end that is not needed."""
        free = self.free()
        needless = [one for one in free if time.monotonic() > one.since + NEEDLESS_S]
        if self.is_short():
            try:
                self._fork()
            except OSError as error:  # raised, it would end the others
                log.error("A worker cannot be started now: %s", error)  # noqa: TRY400  # no fault of ours
                self._fork_at = time.monotonic() + AGAIN_S
        elif free and len(self._present()) > self._wanted():
            free[-1].leave()
        elif needless and len(free) > 1:
            needless[-1].leave()

    def is_short(self) -> bool:
        """Whether no worker is free, nor on its way, and there may be more."""
        if time.monotonic() < self._fork_at:
            return False
        present = self._present()
        is_one_to_come = any(one.stage in {Stage.FREE, Stage.STARTING} for one in present)
        return not is_one_to_come and len(present) < self._wanted() and len(self.workers) < self.size + self._spares

    def _present(self) -> list[Worker]:
        return [one for one in self.workers if one.stage is not Stage.LEAVING]

    def _wanted(self) -> int:
        return self.size + min(sum(one.is_long() for one in self.workers), self._spares)

    def stop(self) -> None:
        self._is_stopping = True
        for one in self.workers:
            if one.stage is not Stage.LEAVING:
                one.leave()

    def kill(self) -> None:
        for one in self.workers:
            one.process.kill()
            one.process.join()

    def _fork(self) -> None:
        taken = {one.place for one in self.workers}
        place = next(number for number in range(self.size + self._spares) if number not in taken)
        self._forked += 1
        ours, theirs = _FORK.Pipe()
        state = process_group.worker_state()
        process = _FORK.Process(
            target=self._begin, args=(place, ours, theirs, state, os.getpid()), name=f"Process-{uuid.uuid4().hex}"
        )
        process.daemon = django_q2.Conf.DAEMONIZE_WORKERS
        process.start()
        theirs.close()
        by = self._holder(process.pid)
        self.workers.append(Worker(place=place, by=by, process=process, line=ours, state=state))

    def _begin(self, number: int, ours: Connection, line: Connection, state: Any, parent: int) -> None:
        """The first thing a worker does, in its process: let go of what belongs to the dispatcher."""
        signal.set_wakeup_fd(-1)
        for signum in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(signum, signal.SIG_DFL)
        process_group.end_with(parent, by=signal.SIGKILL)
        for other in [ours, *(one.line for one in self.workers)]:
            other.close()
        process_group.keep_connections(self._kind)
        by = self._holder(os.getpid())
        worker.run(worker.Place(kind=self._kind, line=line, state=state, counts=self._counts, number=number, by=by))

    def _holder(self, pid: int | None) -> Holder:
        """Under which name a process runs functions. Ids of processes come round; names do not."""
        return Holder(cluster_id=self._cluster_id, ran_by=f"{socket.gethostname()}:{pid}:{self._forked}")

    def _receive(self, one: Worker) -> Handback:
        back = _handback(one)
        try:
            LATEST_ERRORS.keep(one.line.recv())
        except (EOFError, OSError):
            one.leave()  # it ends
        else:
            one.become(Stage.FREE)
        one.batch = []
        return back

    def _remove(self, one: Worker) -> Handback:
        self.workers.remove(one)
        one.line.close()
        self.died.append(one.by)
        if one.process.exitcode and not self._is_stopping:
            self._counts.worker_died()
            if one.state.function:
                self.fatal.append((one.state.function, one.by))
        return _handback(one)


def places(kind: Kind, size: int) -> int:
    """How many workers a pool of this size may have at one time."""
    return 2 * size if kind is Kind.MUTATION else size


def _handback(one: Worker) -> Handback:
    begun, seconds = one.state.begun, time.monotonic() - one.since
    return Handback(begun=one.batch[:begun], rest=one.batch[begun:], seconds=seconds)


def _take_back(one: Worker) -> Handback:
    """Who works for so long begins nothing more of what it was sent: that is for others."""
    back = _handback(one)
    one.batch = one.batch[: one.state.begun]
    return Handback(begun=[], rest=back.rest, seconds=0.0)
