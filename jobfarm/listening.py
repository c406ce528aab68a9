"""The farm's address: bound once, so that a port in use is one sentence and a restarted server loses nobody."""

import errno
import socket

from core.refusal import Refusal

BACKLOG = 2048


class AddressInUse(Refusal, code="address_in_use"):
    """Another program listens at {host}:{port}: stop it, or choose another port with PORT=... ."""


def bind(host: str, port: int) -> socket.socket:
    """A listening socket at this address. Raises AddressInUse; other trouble is an OSError with its own words."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Not left to the server: of a socket whose protocol number is 0 asyncio does not know that it is TCP, and each
    # answer to a connection that stays open would wait 40 ms for the client to acknowledge its head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise AddressInUse(host=host, port=port) from None
        raise
    return listener
