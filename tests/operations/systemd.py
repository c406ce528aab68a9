"""systemd's part in a test: units of deploy/systemd, started and stopped as their `Type` and their times say.

There is no systemd in a container. `Manager.path` is a folder with a `systemctl`, which has the manager in the test
do what it is asked.
"""

import os
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, Self

from tests.operations.wheels import ROOT

PYTHON: Final = sys.executable
UNITS: Final = ROOT / "deploy" / "systemd"
STARTS_WITHIN_S: Final = 90.0  # DefaultTimeoutStartSec
_SYSTEMCTL: Final = """#!{python}
import socket, sys
with socket.socket(socket.AF_UNIX) as asked:
    asked.connect({address!r})
    asked.sendall("\\0".join(sys.argv[1:]).encode())
    asked.shutdown(socket.SHUT_WR)
    answer = asked.makefile().read()
sys.exit(answer or 0)
"""


class Unit:
    """One running unit."""

    def __init__(self, name: str, folder: Path, environment: Mapping[str, str]) -> None:
        template, _, self.instance = name.removesuffix(".service").partition("@")
        file = UNITS / f"{template}{'@' if self.instance else ''}.service"
        self._text = file.read_text().replace("%i", self.instance)
        self._name, self._folder, self._environment = name, folder, environment
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of its main process."""
        assert self.process is not None
        return self.process.pid

    @property
    def log(self) -> Path:
        """What it has said."""
        return self._folder / f"{self._name}.log"

    def setting(self, name: str) -> str:
        """A line of its file."""
        found = re.search(rf"^{name}=(.*)$", self._text, re.MULTILINE)
        return found[1] if found else ""

    def start(self) -> None:
        """Start it. Returns when it is, to systemd: a unit of Type=exec has no say in that."""
        program, *words = shlex.split(self.setting("ExecStart"))
        assert program == "/opt/jobfarm/.venv/bin/python"
        with self.log.open("ab") as log, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
            address = self._folder / f"{self._name}.notify"
            address.unlink(missing_ok=True)
            notices.bind(str(address))
            self.process = subprocess.Popen(
                [PYTHON, *words], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**self._environment, "NOTIFY_SOCKET": str(address)},
            )  # fmt: skip
            if self.setting("Type") == "notify":
                self._wait_until_ready(self.process, notices)

    def _wait_until_ready(self, process: "subprocess.Popen[bytes]", notices: socket.socket) -> None:
        end = time.monotonic() + STARTS_WITHIN_S
        while not select.select([notices], [], [], 0.1)[0]:
            assert process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, self.log.read_text()
        assert notices.recv(4096) == b"READY=1"

    def stop(self) -> None:
        """SIGTERM, and SIGKILL when it is too late for that."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=float(self.setting("TimeoutStopSec")))
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"{self._name} had to be killed:\n{self.log.read_text()}") from None
            finally:
                self.process = None


class Manager:
    """Starts and restarts units with this environment until the block ends."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder, self._environment = folder, environment
        self.units: dict[str, Unit] = {}
        self._stack = ExitStack()
        self.path = folder / "bin"

    def __enter__(self) -> Self:
        self.path.mkdir()
        address = str(self._folder / "systemctl.socket")
        self._listener = self._stack.enter_context(socket.socket(socket.AF_UNIX))
        self._listener.bind(address)
        self._listener.listen()
        program = self.path / "systemctl"
        program.write_text(_SYSTEMCTL.format(python=PYTHON, address=address))
        program.chmod(0o755)
        threading.Thread(target=self._answer, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._stack.close()
        for unit in self.units.values():
            if unit.process is not None:
                unit.process.kill()
                unit.process.wait()

    def start(self, *names: str) -> None:
        """Start these units, one after the other."""
        for name in names:
            self.units[name] = Unit(name, self._folder, self._environment)
            self.units[name].start()

    def restart(self, *patterns: str) -> None:
        """Stop and start those that fit."""
        for pattern in patterns:
            fitting = [unit for name, unit in self.units.items() if fnmatchcase(name, pattern)]
            assert fitting, f"no unit is called {pattern}"
            for unit in fitting:
                unit.stop()
                unit.start()

    def _answer(self) -> None:
        while True:
            try:
                asking, _ = self._listener.accept()
            except OSError:
                return
            with asking, asking.makefile() as words:
                verb, *names = words.read().split("\0")
                asking.sendall(self._done(verb, names).encode())

    def _done(self, verb: str, names: list[str]) -> str:
        try:
            {"restart": self.restart}[verb](*names)
        except Exception as error:  # what it says belongs to whoever has typed the command
            return f"{type(error).__name__}: {error}"
        return ""


def environment(**more: str) -> dict[str, str]:
    """What a unit has of this test's: nothing that systemd would not give it."""
    return {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "JOBFARM_ENV_FILE": "", **more}
