"""Watches a process: whether it still lives, for about a microsecond a check."""

import os

from postgres import descriptors


class Watch:
    """Watches the process `pid` from now on. A pidfd where the kernel has them (Linux 5.3): it cannot be mistaken when
    the number is given to another process, and it distinguishes a zombie from a living process. Elsewhere signal 0."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = _open(pid)

    def is_dead(self) -> bool:
        descriptor = self._descriptor
        if descriptor is None:
            return not exists(self.pid)
        return bool(descriptors.ready([descriptor], within_s=0))

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _open(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # no Linux, an old kernel, a sandbox, or just dead, which exists() will see
        return None
