"""Numbers of a process that serves no pages, for Prometheus: a port of its own, with the token of /metrics.

The process answers between its other work, with no thread and no process for it: one question at a time, each within
ANSWERED_WITHIN_S, and nothing at all while nobody asks (docs/adr/0033).
"""

import contextlib
import hmac
import logging
import socket
import time
from collections.abc import Callable
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST

ANSWERED_WITHIN_S: Final = 0.5
LONGEST_QUESTION: Final = 8192  # bytes
_END: Final = b"\r\n\r\n"
log = logging.getLogger(__name__)


class NoMetricsToken(Exception):
    """--metrics takes JOBFARM_METRICS_TOKEN: what Prometheus has to show as bearer."""


class Exposition:
    """Listens at `address` and answers `GET /metrics` with what `render` returns to whoever shows `token` as bearer.
    Raises OSError where it cannot listen, NoMetricsToken without a token: numbers reveal what goes on."""

    def __init__(self, address: tuple[str, int], *, token: str, render: Callable[[], bytes]) -> None:
        if not token:
            raise NoMetricsToken(NoMetricsToken.__doc__)
        self._token, self._render = token.encode(), render
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._listener = socket.create_server(address, family=family)
        self._listener.setblocking(False)

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def fileno(self) -> int:
        """Readable when somebody asks."""
        return self._listener.fileno()

    def answer(self) -> None:
        """Answer one who asks, if somebody does. Who is slow or gone is left."""
        with contextlib.suppress(OSError):
            caller, _ = self._listener.accept()
            with caller:
                until = time.monotonic() + ANSWERED_WITHIN_S
                caller.settimeout(ANSWERED_WITHIN_S)
                status, body = self._reply(_head(caller, until=until))
                caller.settimeout(max(until - time.monotonic(), 0.05))
                caller.sendall(_response(status, body))

    def serve(self) -> None:
        """Answer whoever asks, until the process ends. For a thread of one that has no loop to do it in."""
        self._listener.setblocking(True)
        while True:
            self.answer()

    def close(self) -> None:
        """Let go of the port in this process."""
        self._listener.close()

    def _reply(self, head: bytes) -> tuple[str, bytes]:
        line, _, rest = head.partition(b"\r\n")
        if not line.startswith((b"GET /metrics ", b"GET /metrics?")):
            return "404 Not Found", b""
        if not hmac.compare_digest(_bearer(rest), self._token):
            return "401 Unauthorized", b""
        return "200 OK", self._render()


def opened(at: tuple[str, int], *, token: str, render: Callable[[], bytes]) -> Exposition | None:
    """An Exposition, or None and a warning in the log where there is no token or somebody else has the port. Who
    watches over jobs does so without being watched: numbers that are missing are an alert of their own."""
    try:
        return Exposition(at, token=token, render=render)
    except (NoMetricsToken, OSError) as error:
        log.warning("No numbers are shown at %s:%s: %s", *at, error)
        return None


def address(text: str) -> tuple[str, int]:
    """ "9101", "0.0.0.0:9101", "[::]:9101" as host and port; this machine's own interface unless it names one. Raises
    ValueError."""
    host, _, port = text.rpartition(":")
    number = int(port)
    if not 0 <= number <= 65_535:
        raise ValueError(text)
    return host.strip("[]") or "127.0.0.1", number


def _head(caller: socket.socket, *, until: float) -> bytes:
    """What came up to the empty line. Raises OSError for who does not get that far in time."""
    head = b""
    while _END not in head:
        caller.settimeout(max(until - time.monotonic(), 0.001))
        more = caller.recv(LONGEST_QUESTION)
        head += more
        if not more or len(head) > LONGEST_QUESTION:
            raise ConnectionError
    return head


def _bearer(headers: bytes) -> bytes:
    for line in headers.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"authorization":
            return value.strip().removeprefix(b"Bearer ").strip()
    return b""


def _response(status: str, body: bytes) -> bytes:
    more = "WWW-Authenticate: Bearer\r\n" if status.startswith("401") else ""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE_LATEST}\r\nContent-Length: {len(body)}\r\n{more}"
    return f"{head}Connection: close\r\n\r\n".encode() + body
