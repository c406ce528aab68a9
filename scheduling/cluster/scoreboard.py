"""What each worker of a cluster does right now, in memory that all its processes share.

Nothing here is locked: every cell has one writer at a time, and a killed process leaves a readable value behind.
"""

import contextlib
import os
import time
from multiprocessing.sharedctypes import RawArray
from typing import Any, Final

from observing.functions import FunctionCounts

_NEVER: Final = 0.0


class Scoreboard:
    """One line for each worker, and for `spares` that may stand in for some. Made before the processes are forked;
    times are of the machine's monotonic clock. `counts` may outlive it."""

    def __init__(self, workers: int, *, spares: int = 0, counts: FunctionCounts | None = None) -> None:
        self.workers, self.spares = workers, spares
        queueing = workers + spares
        self.counts = counts or FunctionCounts(queueing)
        self._free_since: Any = RawArray("d", queueing)
        self._deadline: Any = RawArray("d", queueing)
        self._received: Any = RawArray("q", queueing)  # the number of the last message each worker took
        self._busy_with: Any = RawArray("q", queueing)  # that number while the worker is busy with it
        self._running: Any = RawArray("q", queueing)  # the mutation that each runs
        self._running_since: Any = RawArray("d", queueing)
        self._dismissed: Any = RawArray("b", queueing)
        self._sent: Any = RawArray("q", 1)
        self._low: Any = RawArray("q", 1)
        self._flags: Any = RawArray("b", 3)
        self._seen_at: Any = RawArray("d", 2)  # when the sentinel, and the pusher, was at work last
        # A byte in this pipe: a worker became free. It never fills up: nobody waits to write.
        self._wakeup_read, self._wakeup_write = os.pipe()
        os.set_blocking(self._wakeup_read, False)
        os.set_blocking(self._wakeup_write, False)
        # A byte in this one: no worker is free, the sentinel may hire another.
        self._hire_read, self._hire_write = os.pipe()
        os.set_blocking(self._hire_read, False)
        os.set_blocking(self._hire_write, False)
        # A byte in this one, which nobody takes out: the cluster stops.
        self._stop_read, self._stop_write = os.pipe()

    def free(self, worker: int) -> None:
        self._deadline[worker] = _NEVER
        self._busy_with[worker] = self._running[worker] = 0
        if self._free_since[worker] == _NEVER:
            self._free_since[worker] = time.monotonic()
        self.wake()

    def wake(self) -> None:
        """Wake the pusher: there is room for more."""
        with contextlib.suppress(BlockingIOError):  # the pipe is full: a wakeup is pending
            os.write(self._wakeup_write, b".")

    def busy(self, worker: int, *, message: int) -> None:
        self._free_since[worker] = _NEVER
        self._busy_with[worker] = message
        self._received[worker] = message
        if not self.count_free():
            with contextlib.suppress(BlockingIOError):
                os.write(self._hire_write, b".")

    @property
    def hire_fd(self) -> int:
        """Readable when a worker took a message and none was free after that."""
        return self._hire_read

    def clear_hire(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._hire_read, 4096):
                pass

    def is_free(self, worker: int, *, for_s: float) -> bool:
        """Whether this worker has been waiting for at least so long."""
        return bool(_NEVER < self._free_since[worker] <= time.monotonic() - for_s)

    def is_starting(self, worker: int) -> bool:
        """Whether this worker, which was forked, has not asked for a task yet."""
        return bool(self._free_since[worker] == _NEVER and not self._busy_with[worker])

    def runs(self, worker: int, function_id: int) -> None:
        """This worker begins a mutation; 0: it has ended."""
        self._running_since[worker] = time.monotonic()
        self._running[worker] = function_id

    def count_long(self, seconds: float) -> int:
        """How many workers have run one mutation for longer than that."""
        before = time.monotonic() - seconds
        pairs = zip(self._running, self._running_since, strict=True)
        return sum(1 for function_id, since in pairs if function_id and since < before)

    def dismiss(self, worker: int) -> None:
        """Let this worker end after what it does now."""
        self._dismissed[worker] = 1

    def is_dismissed(self, worker: int) -> bool:
        return bool(self._dismissed[worker])

    def runs_now(self, worker: int) -> int:
        """The mutation that this worker runs, or ran when it died; 0 if none."""
        return int(self._running[worker])

    def gone(self, worker: int) -> None:
        """This worker died, or has not started yet."""
        self._free_since[worker] = self._deadline[worker] = _NEVER
        self._busy_with[worker] = self._running[worker] = self._dismissed[worker] = 0

    def set_deadline(self, worker: int, seconds: float | None) -> None:
        """What this worker does now must be over in so many seconds; None: no matter when."""
        self._deadline[worker] = _NEVER if seconds is None else time.monotonic() + seconds

    def is_overtime(self, worker: int) -> bool:
        return bool(_NEVER < self._deadline[worker] < time.monotonic())

    def next_message(self) -> int:
        """The number for the next message; the pusher alone asks."""
        self._sent[0] += 1
        return int(self._sent[0])

    def count_sent(self) -> int:
        return int(self._sent[0])

    def count_taken(self) -> int:
        """How many messages workers took so far: they are taken in their order."""
        return int(max(self._received))

    def in_queue(self) -> int:
        """How many messages were sent and not taken."""
        return max(0, self.count_sent() - self.count_taken())

    def set_low(self, waiting: int) -> None:
        """When so few messages wait, whoever takes one wakes the pusher."""
        self._low[0] = waiting

    def is_low(self) -> bool:
        return self.in_queue() <= int(self._low[0])

    def is_busy_with(self, message: int) -> bool:
        return message in self._busy_with[:]

    def count_free(self, *, for_s: float = 0.0) -> int:
        """How many workers have been waiting for at least so long."""
        before = time.monotonic() - for_s
        return sum(1 for since in self._free_since if _NEVER < since <= before)

    def stop(self) -> None:
        """Let every worker end after what it does now."""
        self._flags[0] = 1
        os.write(self._stop_write, b".")

    @property
    def is_stopping(self) -> bool:
        return bool(self._flags[0])

    @property
    def stop_fd(self) -> int:
        return self._stop_read

    def sentinel_works(self) -> None:
        self._seen_at[0] = time.monotonic()

    def seen_ago_s(self) -> float | None:
        """How long ago the sentinel was; None: it never was."""
        return None if self._seen_at[0] == _NEVER else time.monotonic() - self._seen_at[0]

    def pusher_works(self) -> None:
        self._seen_at[1] = time.monotonic()

    def is_pusher_silent(self, *, for_s: float) -> bool:
        """Whether the pusher has not been for so long."""
        return bool(time.monotonic() > self._seen_at[1] + for_s)

    def note(self, *, waits: bool, overdue: bool) -> None:
        """What the sentinel sees: a task that waits beside a free worker, and a function that should have been
        dispatched."""
        self._flags[1], self._flags[2] = waits, overdue

    @property
    def waits(self) -> bool:
        """Whether a task lies in the queue although a worker was free all the time."""
        return bool(self._flags[1])

    @property
    def overdue(self) -> bool:
        """Whether a function should have been dispatched seconds ago."""
        return bool(self._flags[2])

    @property
    def wakeup_fd(self) -> int:
        """Readable when a worker became free."""
        return self._wakeup_read

    def close(self) -> None:
        """Let go of the pipes in this process."""
        wakeup, hire = (self._wakeup_read, self._wakeup_write), (self._hire_read, self._hire_write)
        for end in (*wakeup, *hire, self._stop_read, self._stop_write):
            os.close(end)

    def clear_wakeup(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._wakeup_read, 4096):
                pass
