"""Processes that are forked from one that has Django loaded: they begin within milliseconds and share its memory."""

import contextlib
import ctypes
import gc
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NoReturn

from postgres import descriptors

_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGCHLD)
_POLL_S = 0.01
_PR_SET_NAME = 15
log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Forked:
    """A process of ours, in the words of `subprocess.Popen`. The process that made it waits for it."""

    pid: int
    returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code if it has ended, else None; minus the number of the signal that ended it."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; the exit code. Raises TimeoutError after so many seconds."""
        until = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if until is None:
                self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            elif time.monotonic() > until:
                raise TimeoutError(self.pid)
            else:
                time.sleep(_POLL_S)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(run: Callable[[], object], *, name: str = "") -> Forked:
    """Fork a process that calls `run`, in a session of its own, and ends with it: exit code 0, that of a SystemExit, or
    1 with a traceback. It begins with the signals' default actions and without standard input; `ps -o comm` shows 15
    characters of its name.

    What is there now is shared, and never collected. Close pools of connections first. Threads do not come along, and
    what they hold stays held: a warning names them.
    """
    if threading.active_count() > 1:
        log.warning("A process is forked beside threads, which it does not have: %s", threading.enumerate())
    gc.freeze()  # no child looks for garbage in what is here now: it would copy all of it
    _flush()
    # None may reach the parent's handlers in the child.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
    pid = os.fork()
    if pid == 0:
        _live(run, blocked, name)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    return Forked(pid=pid)


def _live(run: Callable[[], object], blocked: Collection[int], name: str) -> NoReturn:
    code = 1
    try:
        _begin_anew(blocked)
        if name and sys.platform == "linux":
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_NAME, name.encode()[:15])
        run()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            _flush()
        os._exit(code)


def _begin_anew(blocked: Collection[int]) -> None:
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in _HANDLED:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ValueError, AttributeError):  # closed, or there is none
            stream.flush()


class Signals:
    """Ends a wait when a signal that has a handler arrives, the end of a child included. One for a process, made in
    its main thread before the handlers are set."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        for end in (self._read, self._write):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _nothing)

    def wait(self, seconds: float, *, or_fds: Collection[int] = ()) -> set[int]:
        """Wait so long, or until a signal comes or has come since the last wait, or one of `or_fds` is readable; those
        that are."""
        ready = descriptors.ready([self._read, *or_fds], within_s=seconds)
        with contextlib.suppress(BlockingIOError):
            while self._read in ready and os.read(self._read, 4096):
                pass
        return ready

    def close(self) -> None:
        """Let go of it; children end unnoticed again."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(self._read)
        os.close(self._write)


def _nothing(_number: int, _frame: object) -> None:
    """A signal without a handler wakes nobody."""
