"""A process with so many open files that new ones have numbers of which `select.select` knows nothing."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

MANY = 1_500  # FD_SETSIZE is 1,024


@contextmanager
def many_open() -> Iterator[None]:
    """Fifteen hundred open files, as a web process with that many sockets has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard == resource.RLIM_INFINITY or hard >= 2 * MANY, f"raise `ulimit -Hn`: it is {hard}"
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * MANY), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(MANY)]
    try:
        yield
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
