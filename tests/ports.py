"""Ports for the processes of tests."""

import random
import socket
from contextlib import closing
from typing import Final

# Below what Linux and macOS give to whoever binds port 0 or connects, so nobody gets one of these by chance: a port
# that a listener has just let go of is the next one that another test's server is given.
LOWEST: Final = 12_000
HIGHEST: Final = 32_000
_rng = random.SystemRandom()
_handed_out: set[int] = set()


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens at, and that this process has not been given before."""
    while True:
        port = _rng.randrange(LOWEST, HIGHEST)
        if port not in _handed_out and _can_be_bound(port):
            _handed_out.add(port)
            return port


def _can_be_bound(port: int) -> bool:
    with closing(socket.socket()) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
