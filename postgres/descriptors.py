"""Open files, of which each socket is one: waiting for them, and how many a process may have. `select.select` knows
none from number 1,024 on, and a process with a thousand sockets opens only such."""

import contextlib
import resource
import select
from collections.abc import Collection
from typing import Final

MOST: Final = 65_536  # shells and service managers often allow 1,024

_LONGEST_S: Final = 86_400.0  # poll counts milliseconds in 31 bits


def ready(to_read: Collection[int], *, to_write: Collection[int] = (), within_s: float) -> set[int]:
    """Those that can be read, or written, or whose other end is gone: at once, or as soon as there is one, at most so
    many seconds later."""
    poll = select.poll()
    for descriptor in {*to_read, *to_write}:
        reading = select.POLLIN if descriptor in to_read else 0
        poll.register(descriptor, reading | (select.POLLOUT if descriptor in to_write else 0))
    return {descriptor for descriptor, _ in poll.poll(min(max(within_s, 0.0), _LONGEST_S) * 1000)}


def most() -> int:
    """How many this process may have, once `allow_many` was called; RLIM_INFINITY where nothing bounds them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MOST if hard == resource.RLIM_INFINITY else min(MOST, hard)
    return soft if soft == resource.RLIM_INFINITY else max(soft, limit)


def allow_many() -> int:
    """Let this process, and all that it starts, open as many as the system allows, up to 65,536; how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if (limit := most()) != soft:
        with contextlib.suppress(ValueError, OSError):  # macOS has a second limit below its "infinity"
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
