"""Private embedded servers, used by processes of their own: the database of the tests is not touched."""

import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from postgres.embedded import places
from tests.operations.postgresqls import PLACE

REPOSITORY = Path(__file__).resolve().parents[3]
DEADLINE_S = 120
SETTINGS = """
import os
from pathlib import Path
import postgres.configuration
DATABASES = {"default": postgres.configuration.database(None, data=Path(os.environ["JOBFARM_DATA"]))}
INSTALLED_APPS = ["django.contrib.contenttypes"]
USE_TZ = True
"""
OPENING = """
import os, signal, sys, threading, time
import django
django.setup()
from django.db import connection, connections, OperationalError
from postgres import embedded, clock, errors

def say(word):
    print(word, flush=True)

def wait():
    sys.stdin.readline()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Who runs the farm in a test."""

    name: str
    uid: int
    gid: int

    @property
    def prefix(self) -> list[str]:
        """What runs a command as this person, if we are root and they are not.

        They keep one of root's rights, to read everything: Python itself may lie in root's home. It gives no
        right to write, so what they make and which sockets they reach is as for anybody."""
        if self.uid == os.geteuid():
            return []
        identity = [f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups"]
        return ["setpriv", *identity, "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]


@dataclass(slots=True)
class Use:
    """A process that uses the server: it says words, and goes on when it is told to."""

    process: "subprocess.Popen[str]"

    def read_line(self) -> str:
        assert self.process.stdout is not None
        output = self.process.stdout.readline().strip()
        assert output, f"it ended with {self.process.wait()}: {self._complaint()}"
        return output

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.close()

    def close(self) -> None:
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()

    def end(self, *, may_complain: bool = False) -> str:
        """Let it run to its end, which must be a good one; what it said on the way. It `may_complain` on
        stderr where a server was killed under it: psycopg's pool warns of each connection that it could not
        open."""
        output, complaint = self.process.communicate("\n\n\n", timeout=DEADLINE_S)
        assert (self.process.returncode, "" if may_complain else complaint) == (0, ""), complaint
        return output.strip()

    def _complaint(self) -> str:
        return self.process.stderr.read() if self.process.stderr else ""


@dataclass(slots=True)
class Farm:
    """A folder for JOBFARM_DATA, and the processes that a person starts on it."""

    person: Person
    data: Path
    settings: Path
    started: list[Use] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return places.location(self.data).home if self.person.uid == 0 else self.data.resolve() / "postgres"

    @property
    def cluster(self) -> Path:
        return self.home / "cluster"

    def postmaster(self) -> int:
        return int((self.cluster / "postmaster.pid").read_text().splitlines()[0])

    def processes(self) -> list[int]:
        """Every process of the server: they all work in its data directory."""
        return [int(process.name) for process in Path("/proc").glob("[0-9]*") if self._works_here(process)]

    def use(self, code: str) -> Use:
        return self._start([sys.executable, "-W", "error::ResourceWarning", "-c", OPENING + code])

    def run(self, code: str) -> str:
        return self.use(code).end()

    def manage(self, *arguments: str) -> str:
        return self._start([sys.executable, "-m", "django", *arguments]).end()

    def give(self, path: Path) -> None:
        """Make the path the person's, or what serves for it as root: the server's user."""
        owner = self.home.stat() if self.person.uid == 0 else None
        os.chown(path, owner.st_uid if owner else self.person.uid, owner.st_gid if owner else self.person.gid)

    def kill_server(self) -> None:
        """Kill the postmaster, and wait for its backends: each serves on until it sees that, milliseconds later,
        and would then end in the middle of the next statement."""
        killed = set(self.processes())
        os.kill(self.postmaster(), signal.SIGKILL)
        until(lambda: killed.isdisjoint(self.processes()))

    def end_all(self) -> None:
        """Kill what a failed test has left, and close the pipes of the rest."""
        while self.started:
            self.started.pop().kill()
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until(lambda: not self.processes())

    def remove(self) -> None:
        self.end_all()
        for path in (self.home, self.data):
            shutil.rmtree(path, ignore_errors=True)
        for lock in self.home.parent.glob(f"{self.home.name}.*.lock"):
            lock.unlink()

    def _works_here(self, process: Path) -> bool:
        try:
            return (process / "cwd").readlink() == self.cluster
        except OSError:
            return False

    def _start(self, command: list[str]) -> Use:
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{self.settings}:{REPOSITORY}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "DJANGO_SETTINGS_MODULE": "private_settings",
            "JOBFARM_DATA": str(self.data),
            "JOBFARM_ENV_FILE": "",
        }
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            [*self.person.prefix, *command], env=environment, cwd="/", stdin=pipe, stdout=pipe, stderr=pipe, text=True
        )
        self.started.append(Use(process))
        return self.started[-1]


def until(is_so: Callable[[], bool]) -> None:
    """Wait for something that another process does, and fail if it does not come."""
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def modes(path: Path) -> dict[Path, int]:
    return {folder: stat.S_IMODE(folder.stat().st_mode) for folder in [path, *path.parents]}


def people() -> list[Person]:
    """Root and an ordinary user if the tests are run by root, else only whoever runs them: nobody can become
    root."""
    me = pwd.getpwuid(os.geteuid())
    everyone = [me, pwd.getpwnam("nobody")] if me.pw_uid == 0 else [me]
    return [Person(name=one.pw_name, uid=one.pw_uid, gid=one.pw_gid) for one in everyone]


def make_farm(person: Person, settings: Path, *, below: str = "") -> Farm:
    data = Path(tempfile.mkdtemp(prefix="jf-", dir=PLACE))
    os.chown(data, person.uid, person.gid)
    data.chmod(0o755)
    return Farm(person=person, data=data / below if below else data, settings=settings)
