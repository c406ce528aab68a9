"""Python processes of tests, forked from one that has imported what they would: a start that loads Django takes two
seconds of a processor, and the suite starts hundreds.

Each process gets its own environment, folder, descriptors and session, and begins at the first line of its program. The
parent of all has imported libraries alone, so that any environment will do (`run`, `Process`). For those that start
again and again in one environment (`Process(..., loaded=True)`) it forks one that has loaded the farm's settings, apps
and addresses with that environment, and starts them from there.

A test of what a start itself imports, or of Python's own options, starts Python anew.
"""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
# Each has 100 MB, most of it shared. The least recently used one ends.
MOST_LOADED: Final = 3
# Other ones at each start: a server's own address, which nothing but the settings has read when one is forked, and what
# pytest calls the test.
LATE: Final = ("JOBFARM_URL", "PYTEST_CURRENT_TEST")
_GONE: Final = -signal.SIGKILL


class ForkServer:
    """The process that forks others, at the other end of a socket; it ends when that is closed."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def ask(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        """Have a process forked, with these descriptors."""
        with tempfile.TemporaryFile() as file:  # longer than a message of a socket may be
            file.write(json.dumps(request).encode())
            file.flush()
            socket.send_fds(self._connection, [b"."], [file.fileno(), *descriptors])

    def loaded(self, environment: Mapping[str, str]) -> "ForkServer":
        """Another one, forked from this, with Django loaded in this environment."""
        ours, theirs = socket.socketpair()
        with theirs:
            self.ask({"environment": dict(environment)}, [theirs.fileno()])
        return ForkServer(ours)

    def close(self) -> None:
        """Let it end. What it forked goes on."""
        self._connection.close()


@cache
def _libraries() -> ForkServer:
    """The one that has imported libraries alone. It lives as long as this process."""
    ours, theirs = socket.socketpair()
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    command = [sys.executable, "-m", "tests.forkserver.server", str(theirs.fileno())]
    with theirs:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment | {"PYTHONUNBUFFERED": "1"}, pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def end() -> None:  # by a signal: a process that some test forked may hold our end open
        for server in [ForkServer(ours), *_by_environment.values()]:
            server.close()
        process.terminate()
        process.wait()

    atexit.register(end)
    return ForkServer(ours)


_by_environment: OrderedDict[tuple[tuple[str, str], ...], ForkServer] = OrderedDict()


def _with_django(environment: Mapping[str, str]) -> ForkServer:
    key = tuple(sorted((name, value) for name, value in environment.items() if name not in LATE))
    if key not in _by_environment:
        if len(_by_environment) == MOST_LOADED:
            _by_environment.popitem(last=False)[1].close()
        _by_environment[key] = _libraries().loaded(environment)
    _by_environment.move_to_end(key)
    return _by_environment[key]


class Process:
    """A process of ours in the words of `subprocess.Popen`: `argv` is what would follow `python`, a script, `-m` and a
    module, or `-c` and code, after `-W error::RuntimeWarning` at most. Output goes where that of this process goes.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path = ROOT,
        stdin: int | IO[Any] | None = None,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
        pass_fds: Collection[int] = (),
        loaded: bool = False,
    ) -> None:
        self.args = argv
        self.returncode: int | None = None
        self._end, end = socket.socketpair()
        self._answer = self._end.makefile("r")
        streams = [_descriptor(stream, number) for number, stream in enumerate((stdin, stdout, stderr))]
        request = {"argv": list(argv), "environment": dict(env), "cwd": str(cwd), "numbers": [0, 1, 2, *pass_fds]}
        with end:
            server = _with_django(env) if loaded else _libraries()
            server.ask(request, [end.fileno(), *streams, *pass_fds])
        self.pid = int(self._answer.readline() or "0")
        assert self.pid, "the fork server ended"

    def __del__(self) -> None:
        """One that nobody waited for leaves no open socket to warn of."""
        self._answer.close()
        self._end.close()

    def poll(self) -> int | None:
        """Its exit code if it has ended, else None; minus the number of the signal that ended it."""
        return self._wait(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; the exit code. Raises `subprocess.TimeoutExpired` after so many seconds."""
        code = self._wait(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(list(self.args), timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _wait(self, timeout: float | None) -> int | None:
        if self.returncode is None and _is_readable(self._end, timeout):
            self.returncode = int(self._answer.readline() or _GONE)
            self._answer.close()
            self._end.close()
        return self.returncode


def _is_readable(end: socket.socket, timeout_s: float | None) -> bool:
    """Whether something comes within the time. Not by `select.select`, which knows no descriptor from 1024 on."""
    poll = select.poll()
    poll.register(end, select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else timeout_s * 1000))


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path = ROOT,
    timeout: float,
    check: bool = False,
    stderr: int | None = None,
    loaded: bool = False,
) -> "subprocess.CompletedProcess[str]":
    """As `subprocess.run(..., capture_output=True, text=True)`, without standard input. `stderr=STDOUT` puts both into
    the output. Raises TimeoutExpired, the process killed; with `check`, CalledProcessError."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given = out if stderr == subprocess.STDOUT else err
        process = Process(argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=given, loaded=loaded)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        done = subprocess.CompletedProcess([*argv], code, _text(out), _text(err))
    if check:
        done.check_returncode()
    return done


def _descriptor(stream: int | IO[Any] | None, number: int) -> int:
    if stream is None:
        return number
    if stream == subprocess.DEVNULL:
        return _nothing()
    return stream if isinstance(stream, int) else stream.fileno()


@cache
def _nothing() -> int:
    return os.open(os.devnull, os.O_RDWR)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()
