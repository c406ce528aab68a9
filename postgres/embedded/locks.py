"""Locks between processes: flock on a file, which the kernel drops when the process that holds it is killed.

A forked child shares its parent's open file, and so its lock. The child closes what it inherited (it is not a
user of anything yet), and every release here is an explicit unlock, so that a parent's lock ends even if a
child still has it open."""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from postgres.errors import UnsafeFolder

_open_here: set[int] = set()


class Lock:
    def __init__(self, path: Path, operation: int) -> None:
        self._descriptor = _open(path)
        _open_here.add(self._descriptor)
        try:
            fcntl.flock(self._descriptor, operation)
        except BaseException:
            self.release()
            raise

    @classmethod
    def exclusive(cls, path: Path) -> Self:
        """The lock that nobody else holds; waits for it."""
        return cls(path, fcntl.LOCK_EX)

    @classmethod
    def exclusive_now(cls, path: Path) -> Self:
        """The lock that nobody else holds. Raises BlockingIOError if somebody does."""
        return cls(path, fcntl.LOCK_EX | fcntl.LOCK_NB)

    @classmethod
    def shared(cls, path: Path) -> Self:
        """A share of it; waits for whoever holds it alone."""
        return cls(path, fcntl.LOCK_SH)

    def make_exclusive(self) -> bool:
        """Turn a share into the whole, if nobody else has a share. If somebody has, this one is lost
        (flock(2)), so only who is leaving calls this. Of several who do so at once, one gets it."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        _open_here.discard(self._descriptor)
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _open(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    if os.fstat(descriptor).st_uid != os.geteuid():
        os.close(descriptor)
        raise UnsafeFolder(folder=path.parent, reason=f"another user made {path.name} in it")
    return descriptor


def _close_inherited() -> None:
    while _open_here:
        os.close(_open_here.pop())


os.register_at_fork(after_in_child=_close_inherited)
