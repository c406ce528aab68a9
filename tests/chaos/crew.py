"""The processes of the farm: started, watched and started again as an init system would, found, stopped and killed."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TURN_S = 0.1
AGAIN_S = 0.3  # between the end of a process and its next start
ENDS_WITHIN_S = 60.0


class Member:
    """One process that runs all the time, with whatever it starts itself."""

    def __init__(self, name: str, argv: Sequence[str], *, environment: Mapping[str, str], log: Path) -> None:
        self.name = name
        self._argv = argv
        self._environment = environment
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._ended_at = 0.0

    def tend(self) -> None:
        """Start it if it does not run."""
        if self._process is not None and self._process.poll() is None:
            return
        if self._process is not None and not self._ended_at:
            self._ended_at = time.monotonic()
        if self._process is None or time.monotonic() - self._ended_at > AGAIN_S:
            self._start()

    def pids(self) -> list[int]:
        """It and all that it started, the oldest first."""
        found = [] if self._process is None or self._process.poll() is not None else [self._process.pid]
        for pid in found:
            found += _children(pid)
        return found

    def signal(self, number: signal.Signals, *, everything: bool = False) -> None:
        """Send it a signal; `everything`: also to all that it started."""
        for pid in self.pids()[: None if everything else 1]:
            send(pid, number)

    def end(self) -> None:
        """Ask it to end."""
        self.signal(signal.SIGCONT, everything=True)
        self.signal(signal.SIGTERM)

    def await_end(self, until: float) -> bool:
        """Whether it ended by itself before this moment of the monotonic clock; it has ended in any case."""
        left = self.pids()
        try:
            if self._process is not None:
                self._process.wait(max(until - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL, everything=True)
            return False
        for pid in left:
            send(pid, signal.SIGKILL)
        return True

    def _start(self) -> None:
        self._ended_at = 0.0
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._argv,
                cwd=ROOT,
                env=dict(self._environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


class Crew:
    """All of them, and a thread that starts those that have ended."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._members: dict[str, Member] = {}
        self._is_over = threading.Event()
        self._tending = threading.Thread(target=self._tend, daemon=True)

    def add(self, name: str, *argv: str, environment: Mapping[str, str]) -> None:
        """Add one; it is started by `start`."""
        log = self._folder / f"{name}.log"
        self._members[name] = Member(name, [sys.executable, *argv], environment={**os.environ, **environment}, log=log)

    def start(self) -> None:
        """Start all, and from now on each that ends."""
        self._tending.start()

    def stop(self) -> list[str]:
        """Ask all to end and wait for it; the names of those that had to be killed."""
        self._is_over.set()
        self._tending.join()
        for member in self._members.values():
            member.end()
        until = time.monotonic() + ENDS_WITHIN_S
        return [name for name, member in self._members.items() if not member.await_end(until)]

    def pids(self) -> dict[str, list[int]]:
        """Of each the processes that live."""
        return {name: member.pids() for name, member in self._members.items()}

    def __getitem__(self, name: str) -> Member:
        return self._members[name]

    def _tend(self) -> None:
        while not self._is_over.wait(TURN_S):
            for member in self._members.values():
                member.tend()


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may have ended already."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def until(check: Callable[[], object], *, within_s: float, pause_s: float = 0.05) -> bool:
    """Whether `check` came to be true within the time; an error in it counts as not yet."""
    deadline = time.monotonic() + within_s
    while True:
        with contextlib.suppress(Exception):
            if check():
                return True
        if time.monotonic() > deadline:
            return False
        time.sleep(pause_s)


def _children(pid: int) -> list[int]:
    """Those that live; one that ended and was not waited for does not."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [child for child in map(int, text.split()) if _is_alive(child)]
    except (FileNotFoundError, ProcessLookupError):
        return []


def _is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
