"""What a worker of any contender counts: how many jobs, when the first and the last began, how long each waited.

Plain Python: it runs in the environments of the peers. Times are CLOCK_MONOTONIC, which all processes share.
"""

import json
import os
import threading
import time

IDLE_S = 0.5  # after so long without a job it says what it has


class JobCounter:
    """Say `job` for each job, with the moment at which its enqueue began, if that is known."""

    def __init__(self) -> None:
        self._pid = 0
        self._begin()

    def job(self, sent_at: float | None = None) -> None:
        """A handler begins."""
        now = time.monotonic()
        if self._pid != os.getpid():  # the first job after a fork
            self._begin()
            self._pid = os.getpid()
            threading.Thread(target=self._report, daemon=True).start()
        if not self._count:
            self._first, self._spent_before_s = now, time.process_time()
        self._last, self._count = now, self._count + 1
        if sent_at:
            self._waits.append(now - sent_at)

    def _begin(self) -> None:
        self._count, self._first, self._last, self._reported = 0, 0.0, 0.0, 0
        self._waits: list[float] = []
        self._spent_before_s = 0.0

    def _report(self) -> None:
        while True:
            time.sleep(0.1)
            if self._count != self._reported and time.monotonic() - self._last > IDLE_S:
                self._reported = self._count
                found = {"pid": self._pid, "jobs": self._count, "first": self._first, "last": self._last}
                spent_s = time.process_time() - self._spent_before_s
                line = json.dumps({**found, "waits": self._waits, "spent_s": spent_s})
                os.write(1, f"{line}\n".encode())
