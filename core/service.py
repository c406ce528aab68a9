"""What a process says to the service manager that started it: sd_notify(3), for units of Type=notify.

A manager that waits for `ready` starts, or stops, the next part only then. Without one (NOTIFY_SOCKET is not set)
nothing is sent.
"""

import logging
import os
import socket

log = logging.getLogger(__name__)


def ready() -> None:
    """Say that this process does what it was started for from now on."""
    _notify("READY=1")


def stopping() -> None:
    _notify("STOPPING=1")


def _notify(state: str) -> None:
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    abstract = "\0" + address[1:] if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram:
            datagram.sendto(state.encode(), abstract)
    except OSError as error:
        log.warning("The service manager does not hear %s: %s", state, error)
