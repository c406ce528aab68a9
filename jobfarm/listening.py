"""The farm's address: bound once, so that a port in use is one sentence and a restarted server loses nobody."""

import errno
import socket

BACKLOG = 2048


class AddressInUse(Exception):
    """Another program listens at {host}:{port}: stop it, or choose another port with PORT=... ."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__((AddressInUse.__doc__ or "").format(host=host, port=port))


def bind(host: str, port: int) -> socket.socket:
    """A listening socket at this address. Raises AddressInUse; other trouble is an OSError with its own words."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise AddressInUse(host, port) from None
        raise
    return listener
