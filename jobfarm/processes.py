"""The processes of one farm on one machine: started together, restarted when they die, stopped together."""

import contextlib
import ctypes
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LONGEST_PAUSE_S = 30.0
KILLED_WITHIN_S = 5.0
STEADY_S = 60.0  # a process that ran this long is well again: its next restart is quick
_PR_SET_PDEATHSIG = 1
log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Child:
    """One process of the farm. `grace_s` is how long it may take to end after SIGTERM."""

    name: str
    argv: Sequence[str]
    environment: dict[str, str] = field(default_factory=dict)
    inherited: Sequence[int] = ()
    grace_s: float = 10.0
    process: "subprocess.Popen[bytes] | None" = None
    started_at: float = 0.0
    deaths: int = 0
    due_at: float = 0.0

    def start(self, *, now: float) -> None:
        """Start it in a session of its own, so that Ctrl-C at the terminal reaches only the supervisor."""
        self.process = subprocess.Popen(
            self.argv,
            env=os.environ | self.environment,
            pass_fds=self.inherited,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            preexec_fn=_die_with_the_parent(os.getpid()),  # noqa: PLW1509 (the supervisor has no other threads)
        )
        self.started_at = now

    def died(self) -> int | None:
        """Its exit code if it ended, None while it runs or was never started."""
        return None if self.process is None else self.process.poll()

    def schedule_restart(self, *, now: float) -> float:
        """Plan the next start, later after each quick death; how many seconds from now."""
        self.deaths = 1 if now - self.started_at > STEADY_S else self.deaths + 1
        pause = min(0.5 * 2.0 ** (self.deaths - 1), LONGEST_PAUSE_S)
        self.process, self.due_at = None, now + pause
        return pause

    def stop(self) -> None:
        """End it: SIGTERM, its grace, then SIGKILL for its whole group."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(self.grace_s)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Supervisor:
    """Keeps children running until told to stop. Its note in `folder` lets the next start clean up after a kill."""

    def __init__(self, children: Sequence[Child], *, folder: Path, say: Callable[[str], None]) -> None:
        self._children = children
        self._note = folder / "farm.json"
        self._say = say
        self._stopping = threading.Event()

    def run(self) -> None:
        """Start all and watch them; returns after SIGINT or SIGTERM, with nothing left running."""
        previous = {
            number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            while not self._stopping.is_set():
                self._tend(now=time.monotonic())
                self._stopping.wait(0.2)
        finally:
            self._stop_all()
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _on_signal(self, _number: int, _frame: object) -> None:
        if self._stopping.is_set():  # asked twice: no more patience
            for child in self._children:
                child.grace_s = 0.0
        self._stopping.set()

    def _tend(self, *, now: float) -> None:
        for child in self._children:
            code = child.died()
            if code is not None:
                pause = child.schedule_restart(now=now)
                self._say(f"{child.name} ended with code {code}; it starts again in {pause:.1f} s")
            if child.process is None and now >= child.due_at:
                child.start(now=now)
                self._write_note()

    def _stop_all(self) -> None:
        for child in self._children:
            child.stop()
        self._note.unlink(missing_ok=True)

    def _write_note(self) -> None:
        running = [child.process.pid for child in self._children if child.process is not None]
        self._note.write_text(json.dumps([{"pid": pid, "born": born(pid)} for pid in running]))


def end_leftovers(folder: Path) -> int:
    """Kill what an earlier farm with this folder left running (it was killed with -9 itself); how many there were.

    A process counts as left over only if the note has both its id and the moment of its birth: ids come round again.
    """
    note = folder / "farm.json"
    try:
        left = json.loads(note.read_text())
    except (FileNotFoundError, ValueError):
        return 0
    groups = [entry["pid"] for entry in left if born(entry["pid"]) == entry["born"] is not None]
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    _await_their_end(groups)
    note.unlink(missing_ok=True)
    return len(groups)


def _await_their_end(pids: Sequence[int]) -> None:
    """They hold the farm's socket until they are gone. What SIGKILL cannot end (a dead disk) is not waited for."""
    deadline = time.monotonic() + KILLED_WITHIN_S
    while any(map(born, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)


def born(pid: int) -> str | None:
    """A text that tells this process from any other that had or will have its id; None if it does not run."""
    try:
        fields = (
            Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        )  # from field 3 on, after the name
        return None if fields[0] in "ZX" else fields[19]  # state (a zombie has ended); starttime, field 22
    except (FileNotFoundError, ProcessLookupError):
        return _born_by_ps(pid)


def _born_by_ps(pid: int) -> str | None:
    if Path("/proc/self/stat").exists():
        return None
    answer = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return answer.stdout.strip() or None


def _die_with_the_parent(parent: int) -> Callable[[], None]:
    """What makes a child end when its supervisor is killed: Linux tells it (SIGTERM). Elsewhere the note has to do."""
    if sys.platform != "linux":
        return lambda: None
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def arrange() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died between the fork and the call
            os._exit(1)

    return arrange
