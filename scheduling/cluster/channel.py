"""A queue between processes that holds no lock: a process may be killed anywhere in it.

multiprocessing's queue is read under a lock that all readers share. A reader spends its life holding it, and one that
is killed there keeps it for ever: the cluster stands still (trials: 5 of 12). Here one receive is one message, by the
kernel, whole or not at all.
"""

import array
import os
import pickle
import socket
import sys
import tempfile
import time
from typing import Any

from django.db import connections

from postgres import descriptors
from scheduling.cluster import django_q2
from scheduling.cluster.scoreboard import Scoreboard
from scheduling.queries.functions import Dispatch

# Beyond this a message travels as an open file: the kernel takes some 200 KB in one piece on Linux, 2 KB on a Mac.
_INLINE_BYTES = 100_000 if sys.platform == "linux" else 1500
IDLE_S = 30.0  # a process of a cluster that had nothing to do for so long keeps no session of the server's
_POLL_S = 1.0  # a worker looks this often whether it was dismissed, and who its parent is


class Channel:
    """Carries picklable values from any process to any other that was forked after it was made. First in, first out."""

    def __init__(self) -> None:
        self._receiving, self._sending = _pair()
        for end in (self._receiving, self._sending):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)

    def put(self, value: Any) -> None:
        """Send; waits while the queue is full."""
        data = pickle.dumps(value)
        if len(data) <= _INLINE_BYTES:
            self._sending.send(b"i" + data)
            return
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.flush()
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file.fileno()]))]
            self._sending.sendmsg([b"f"], ancillary)

    def get(self) -> Any:
        """Receive; waits for a message."""
        message, ancillary, _, _ = self._receiving.recvmsg(_INLINE_BYTES + 1, socket.CMSG_SPACE(4))
        if message[:1] != b"f":
            return pickle.loads(message[1:])  # noqa: S301 (from a process of this cluster)
        descriptors = array.array("i")
        descriptors.frombytes(ancillary[0][2])
        with os.fdopen(descriptors[0], "rb") as file:
            file.seek(0)
            return pickle.load(file)  # noqa: S301

    def is_ready(self, *, within_s: float, or_fd: int | None = None) -> bool:
        """Whether a message is there, or comes within so many seconds, or until `or_fd` is readable. Another process
        may still be quicker."""
        own = self._receiving.fileno()
        fds = [own] if or_fd is None else [own, or_fd]
        return own in descriptors.ready(fds, within_s=within_s)

    def try_get(self) -> tuple[bool, Any]:
        """(True, a message) if one is there for us, (False, None) if another process was quicker."""
        self._receiving.setblocking(False)
        try:
            return True, self.get()
        except BlockingIOError:
            return False, None
        finally:
            self._receiving.setblocking(True)

    def fileno(self) -> int:
        """Readable while a message waits."""
        return self._receiving.fileno()

    def empty(self) -> bool:
        """Whether nothing waits right now."""
        return not self.is_ready(within_s=0)

    def qsize(self) -> int:
        """0 or 1, for django-q2's monitor: a socket does not say more."""
        return 0 if self.empty() else 1

    def close(self) -> None:
        self._receiving.close()
        self._sending.close()


class TaskQueue(Channel):
    """The tasks of a cluster. The pusher puts, `of(worker)` is the end that a worker gets from."""

    def __init__(self, board: Scoreboard, *, function: str = "") -> None:
        super().__init__()
        self._board = board
        self.function = function  # what a worker's loop calls with a function that was dispatched to it

    def put(self, value: Any) -> None:
        self.send(value)

    def send(self, value: Any) -> int:
        number = self._board.next_message()
        super().put((number, value))
        return number

    def of(self, worker: int) -> "WorkersEnd":
        return WorkersEnd(self, worker=worker, board=self._board)

    def waits(self) -> int:
        """How many tasks nobody has taken yet."""
        return 0 if self.empty() else max(1, self._board.in_queue())


class WorkersEnd:
    """What a worker's loop calls `task_queue.get` on. Asking for a task is what makes a worker free."""

    def __init__(self, tasks: TaskQueue, *, worker: int, board: Scoreboard) -> None:
        self._tasks = tasks
        self._worker = worker
        self._board = board

    def get(self) -> Any:
        """The next task, or "STOP" when the cluster stops or its sentinel is gone."""
        self._board.free(self._worker)
        idle_since = time.monotonic()
        while not self._must_end():
            if not self._tasks.is_ready(within_s=_POLL_S, or_fd=self._board.stop_fd):
                if time.monotonic() > idle_since + IDLE_S:
                    connections.close_all()  # the next task opens one, in some 5 ms
                continue
            mine, task = self._take()
            if mine:
                return self._wrap(task)
        self._board.gone(self._worker)
        return "STOP"

    def _must_end(self) -> bool:
        board = self._board
        return board.is_stopping or board.is_dismissed(self._worker) or os.getppid() != _sentinel.pid

    def try_next(self) -> Any:
        """The next task if one waits and the cluster goes on, else None."""
        return None if self._board.is_stopping else self._take()[1]

    def _wrap(self, task: Any) -> Any:
        """What django-q2's worker loop takes: one of its own tasks as it is."""
        if not isinstance(task, Dispatch):
            return task
        return django_q2.task(self._tasks.function, task)

    def _take(self) -> tuple[bool, Any]:
        mine, message = self._tasks.try_get()
        if not mine:
            return False, None
        number, task = message
        self._board.busy(self._worker, message=number)
        if self._board.is_low():
            self._board.wake()
        return True, task


class _Sentinel:
    pid = 0


_sentinel = _Sentinel()


def belongs_to(pid: int) -> None:
    """Say, in the sentinel before it forks, who the parent of all workers is."""
    _sentinel.pid = pid


def _pair() -> tuple[socket.socket, socket.socket]:
    """Sockets that keep messages apart and in order; a Mac has no SEQPACKET, and its datagrams are as good."""
    try:
        return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    except OSError:
        return socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
