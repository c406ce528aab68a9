"""The processes of one farm on one machine: started together, restarted when they die, stopped together; and its
address, bound once, so that a port in use is one sentence and a restarted server loses nobody.

Those that strangers talk to have, when root starts a farm, the rights of the account that the embedded PostgreSQL runs
as. Where that account cannot run them, a sentence says why (docs/adr/0002)."""

import errno
import json
import logging
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from django.conf import settings

from core import commands, forked
from core.backoff import Backoff
from core.refusal import Refusal
from postgres import connections, embedded
from postgres.embedded.places import Account, Lock, account_for_root
from postgres.errors import PostgresError
from scheduling.cluster import process_group

BACKLOG = 2048
_RESTARTS = Backoff(first_s=0.5, cap_s=30)
KILLED_WITHIN_S = 5.0
POLL_S = 0.2
RESTING_S = 5.0  # while all run: the end of one is a signal
SHORT_S = 0.02
SILENCE_S = 1.5  # whoever presses Ctrl-C and sees nothing happen for longer wants to know why
STEADY_S = 60.0  # a process that ran this long is well again: its next restart is quick
log = logging.getLogger(__name__)
_PROBE_S: Final = 30.0
# What a web process needs of the disk, tried by the account itself: the code of every app, and room for files.
_PROBE: Final = """
import importlib.util, os, sys
code, files, *packages = sys.argv[1:]
sys.path.insert(0, code)
for name in packages:
    if importlib.util.find_spec(name) is None:
        sys.exit(f"it finds no {name}")
if files and not os.access(files, os.R_OK | os.W_OK | os.X_OK):
    sys.exit(f"it may not write into {files}")
"""
_REMEDY: Final = "Put what lies there where others may read it (/opt/jobfarm, say), or start the farm as another user."


@dataclass(slots=True, kw_only=True)
class Child:
    """One process of the farm. `grace_s` is how long it may take to end after SIGTERM.

    `hurry` is the signal that lets it end at once, when nobody wants to wait: SIGQUIT for one that has processes of
    its own to take along. Children of a lower `stop_order` are stopped first, those of one order together.
    """

    name: str
    argv: Sequence[str] = ()
    run: Callable[[], object] | None = None  # in a process forked from this one, which has Django loaded
    environment: dict[str, str] = field(default_factory=dict)
    inherited: Sequence[int] = ()
    credentials: Mapping[str, Any] = field(default_factory=dict)  # of `subprocess`: whose rights it has
    grace_s: float = 10.0
    hurry: signal.Signals = signal.SIGKILL
    stop_order: int = 0
    process: "subprocess.Popen[bytes] | forked.Forked | None" = None
    started_at: float = 0.0
    deaths: int = 0
    due_at: float = 0.0

    def start(self, *, now: float) -> None:
        """Start it in a session of its own, so that Ctrl-C at the terminal reaches only the supervisor."""
        self.process = self._spawn() if self.run is None else self._fork(self.run)
        self.started_at = now

    def _fork(self, run: Callable[[], object]) -> forked.Forked:
        connections.close_before_fork()
        farm = os.getpid()

        def live() -> None:
            process_group.end_with(farm, by=signal.SIGTERM)
            os.environ.update(self.environment)
            run()

        return forked.start(live, name=self.name.removeprefix("the "))

    def _spawn(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            self.argv,
            env=os.environ | self.environment,
            pass_fds=self.inherited,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            # Called when the rights are given up already: the kernel drops what was set before that.
            preexec_fn=partial(process_group.end_with, os.getpid(), by=signal.SIGTERM),  # noqa: PLW1509 (the supervisor has no other threads)
            **self.credentials,
        )

    def died(self) -> int | None:
        """Its exit code if it ended, None while it runs or was never started."""
        return None if self.process is None else self.process.poll()

    def schedule_restart(self, *, now: float) -> float:
        """Plan the next start, later after each quick death; how many seconds from now."""
        self.deaths = 1 if now - self.started_at > STEADY_S else self.deaths + 1
        pause = _RESTARTS.plain_s(self.deaths)
        self.process, self.due_at = None, now + pause
        return pause

    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def send_signal(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(number)

    def end(self) -> None:
        """SIGKILL for its whole group, which is all that is left of it."""
        if self.process is not None:
            process_group.kill_group(self.process.pid)
            self.process.kill()  # one that was forked a moment ago leads no group yet
            self.process.wait()


class Supervisor:
    """Keeps children running until it is to stop. Its note in `folder` lets the next start clean up after a kill."""

    def __init__(self, children: Sequence[Child], *, folder: Path, report: Callable[[str], None]) -> None:
        self._children = children
        self._note = folder / "farm.json"
        self._report = report
        # Counted by the signal handler, read by the loops: a handler must not touch a lock that the code it
        # interrupted may hold, as an Event's.
        self._stop_requests = 0

    def run(self) -> None:
        """Start all and watch them; returns after SIGINT or SIGTERM, with nothing left running."""
        self._signals = forked.Signals()
        previous = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            while not self._stop_requests:
                self._tend(now=time.monotonic())
                is_complete = all(child.process is not None for child in self._children)
                self._signals.wait(RESTING_S if is_complete else POLL_S)
        finally:
            self._stop_all()
            for number, handler in previous.items():
                signal.signal(number, handler)
            self._signals.close()

    def _on_signal(self, _number: int, _frame: object) -> None:
        self._stop_requests += 1

    def _tend(self, *, now: float) -> None:
        for child in self._children:
            code = child.died()
            if code is not None:
                pause = child.schedule_restart(now=now)
                self._report(f"{child.name} ended with code {code}; it starts again in {pause:.1f} s")
            if child.process is None and now >= child.due_at:
                child.start(now=now)
                self._write_note()

    def _stop_all(self) -> None:
        for stop_order in sorted({child.stop_order for child in self._children}):
            self._stop_together([child for child in self._children if child.stop_order == stop_order])
        self._note.unlink(missing_ok=True)

    def _stop_together(self, children: Sequence[Child]) -> None:
        """SIGTERM, the longest grace, then SIGKILL. A second signal ends the grace."""
        for child in children:
            child.send_signal(signal.SIGTERM)
        self._wait(children, within_s=max(child.grace_s for child in children), patiently=True)
        for child in children:
            child.send_signal(child.hurry)
        self._wait(children, within_s=KILLED_WITHIN_S, patiently=False)
        for child in children:
            child.end()

    def _wait(self, children: Sequence[Child], *, within_s: float, patiently: bool) -> None:
        started_at, is_announced = time.monotonic(), False
        while any(child.is_alive() for child in children) and time.monotonic() < started_at + within_s:
            if patiently and self._stop_requests > 1:
                return
            if patiently and not is_announced and time.monotonic() > started_at + SILENCE_S:
                running = " and ".join(child.name for child in children if child.is_alive())
                self._report(f"Waiting for {running} to finish, {within_s:.0f} s at most. Ctrl-C again: end at once.")
                is_announced = True
            time.sleep(SHORT_S)

    def _write_note(self) -> None:
        running = [(child.name, child.process.pid) for child in self._children if child.process is not None]
        text = json.dumps([{"name": name, "pid": pid, "born": born(pid)} for name, pid in running])
        self._note.parent.mkdir(parents=True, exist_ok=True)
        draft = self._note.with_suffix(".new")
        draft.write_text(text)
        draft.replace(self._note)  # who reads it after a kill finds all of it or all of the one before


class AddressInUse(Refusal, code="address_in_use"):
    """Another program listens at {host}:{port}: stop it, or choose another port with PORT=... ."""


def bind(host: str, port: int) -> socket.socket:
    """A listening socket at this address. Raises AddressInUse; other trouble is an OSError with its own words."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Not left to the server: of a socket whose protocol number is 0 asyncio does not know that it is TCP, and each
    # answer to a connection that stays open would wait 40 ms for the client to acknowledge its head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise AddressInUse(host=host, port=port) from None
        raise
    return listener


def url_at(host: str, port: int) -> str:
    """Where who listens at this address is found on this machine: at all of its addresses is at its own."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 (it binds nothing)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextmanager
def listening_at(url: str) -> Iterator[None]:
    """Note where this farm, which is `alone`, listens, for commands (core.commands.own_url). The note counts while it
    is locked: one that a killed farm left says nothing."""
    note = settings.JOBFARM_DATA / commands.FARM_URL
    note.unlink(missing_ok=True)  # whoever reads, and so locks, an old one is not waited for
    with Lock.exclusive(note):
        note.chmod(0o644)  # its web processes may be another account's
        note.write_text(url)
        try:
            yield
        finally:
            note.unlink(missing_ok=True)


class AnotherFarm(Refusal, code="another_farm"):
    """Another farm runs with the data in {folder}: stop it, or give this one a folder of its own (JOBFARM_DATA)."""


def alone(folder: Path) -> Lock:
    """The right to be the farm of this folder, until it is released or this process ends; no child has it. Raises
    AnotherFarm, and UnsafeFolder."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return Lock.exclusive_now(folder / "farm.lock")
    except BlockingIOError:
        raise AnotherFarm(folder=folder) from None


def end_leftovers(folder: Path) -> int:
    """Kill what an earlier farm with this folder left running (it was killed with -9 itself); how many there were. For
    who is `alone`: the note of a farm that runs names its children.

    A process counts as left over only if the note has both its id and the moment of its birth: ids come round again.
    """
    note = folder / "farm.json"
    try:
        entries = json.loads(note.read_text())
    except (FileNotFoundError, ValueError):
        return 0
    groups = [entry["pid"] for entry in entries if born(entry["pid"]) == entry["born"] is not None]
    for group in groups:
        process_group.kill_group(group)
    # They hold the farm's socket until they are gone. What SIGKILL cannot end (a dead disk) is not waited for.
    deadline = time.monotonic() + KILLED_WITHIN_S
    while any(map(born, groups)) and time.monotonic() < deadline:
        time.sleep(SHORT_S)
    note.unlink(missing_ok=True)
    return len(groups)


def born(pid: int) -> str | None:
    """A text that distinguishes this process from any other that had or will have its id; None if it does not run."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()  # from field 3 on, after the name
        return None if fields[0] in "ZX" else fields[19]  # state (a zombie has ended); starttime, field 22
    except (FileNotFoundError, ProcessLookupError):
        return _born_by_ps(pid)


def _born_by_ps(pid: int) -> str | None:
    if Path("/proc/self/stat").exists():
        return None
    answer = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return answer.stdout.strip() or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What `subprocess` needs to start something with fewer rights, what its environment must say, and, where it keeps
    root's, the sentence that says why."""

    credentials: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    complaint: str = ""


def rights_of_servants() -> Rights:
    """The rights of the web process and of the worker that comes along. Nobody but root can give any up."""
    if os.geteuid() != 0:
        return Rights()
    try:
        account = account_for_root(embedded.location(settings.JOBFARM_DATA).home)
        _hand_over_files(account)
        obstacle = _obstacle(account)
    except (PostgresError, OSError) as error:
        obstacle = str(error)
    if obstacle:
        return Rights(complaint=f"The web process keeps root's rights: {obstacle}. {_REMEDY}")
    return Rights(credentials=account.credentials, environment=_environment())


def _environment() -> dict[str, str]:
    """The key lies in a file of root's, as the settings may; a server of another account's is reached, not started."""
    own = {"SECRET_KEY": settings.SECRET_KEY, "JOBFARM_ENV_FILE": ""}
    database = settings.DATABASES["default"]
    return own | ({"JOBFARM_EMBEDDED_SOCKET": database["HOST"]} if "EMBEDDED" in database else {})


def _files() -> Path | None:
    return None if os.environ.get("FILES_URL") else Path(settings.MEDIA_ROOT)


def _hand_over_files(account: Account) -> None:
    """The files that a farm with root's rights wrote are the account's from now on."""
    files = _files()
    if files is None:
        return
    files.mkdir(parents=True, exist_ok=True)
    if files.stat().st_uid == account.uid:
        return
    for folder, _, names in os.walk(files, topdown=False):  # the topmost last: a walk that was killed begins anew
        for path in [*(os.path.join(folder, name) for name in names), folder]:
            os.chown(path, account.uid, account.gid, follow_symlinks=False)


def _obstacle(account: Account) -> str:
    """Why this account cannot serve the site; empty if it can."""
    packages = sorted({app.partition(".")[0] for app in settings.INSTALLED_APPS} | {"uvicorn", "psycopg"})
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROBE, str(settings.BASE_DIR), str(_files() or ""), *packages], cwd="/",
            capture_output=True, text=True, timeout=_PROBE_S, check=False, **account.credentials,
        )  # fmt: skip
    except PermissionError:
        python = Path(sys.executable)
        return f"user {account.uid} may not enter {_closed([python, python.resolve(), settings.BASE_DIR])}"
    except subprocess.TimeoutExpired:
        return f"user {account.uid} did not get Python to start within {_PROBE_S:g} s"
    return "" if done.returncode == 0 else f"user {account.uid}: {(done.stderr.strip().splitlines() or ['?'])[-1]}"


def _closed(paths: Iterable[Path]) -> Path:
    """The first of the folders above these that is closed to others."""
    above = [folder for path in paths for folder in [*reversed(path.parents), path]]
    return next((folder for folder in above if not folder.stat().st_mode & stat.S_IXOTH), above[-1])
