"""A proxy between a client and a farm, which answers by itself what a test says, and passes on all else."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

import httpx

_PASSED: Final = ("Authorization", "Content-Type", "Idempotency-Key")


@dataclass(frozen=True)
class Own:
    """An answer of the proxy's own. `is_held`: nothing is sent until the proxy ends, as a buffer does it; `piece`: so
    many bytes of the body are, every twentieth of a second, or already of its head."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    is_held: bool = False
    piece: int = 0
    is_slow_at_once: bool = False


Rule = Callable[[str, str], Own | None]
"""Method and path of a request, and what it is answered; None: by the farm."""


class Proxy(ThreadingHTTPServer):
    """Counts the requests by their path."""

    daemon_threads = True

    def __init__(self, farm_url: str, rule: Rule) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.farm = httpx.Client(base_url=farm_url, timeout=60)
        self.rule = rule
        self.calls: Counter[str] = Counter()
        self.keys: list[str] = []
        self.ending = threading.Event()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Proxy

    def do_GET(self) -> None:
        """Answer or pass on."""
        path = self.path.partition("?")[0]
        self.server.calls[path] += 1
        self.server.keys += [self.headers["Idempotency-Key"]] if "Idempotency-Key" in self.headers else []
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = self.server.rule(self.command, path) or self._passed(body)
        self.close_connection = True
        if answer.is_held:
            self.server.ending.wait(60)
            return
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        text = answer.body
        if answer.is_slow_at_once:
            text = f"HTTP/1.1 {answer.status} OK\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text
        else:
            self.end_headers()
        step = answer.piece or len(text) or 1
        with suppress(OSError):  # whom it takes too long goes
            for start in range(0, len(text), step):
                self.wfile.write(text[start : start + step])
                if answer.piece and self.server.ending.wait(0.05):
                    break

    def do_POST(self) -> None:
        """Likewise."""
        self.do_GET()

    def _passed(self, body: bytes) -> Own:
        headers = {name: self.headers[name] for name in _PASSED if name in self.headers}
        answer = self.server.farm.request(self.command, self.path, content=body, headers=headers)
        return Own(answer.status_code, answer.content, {"Content-Type": answer.headers["Content-Type"]})

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class calls it so)
        """Say nothing."""


@contextmanager
def proxy(farm_url: str, rule: Rule) -> Iterator[Proxy]:
    """A proxy in front of the farm at this address."""
    with Proxy(farm_url, rule) as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        try:
            yield made
        finally:
            made.ending.set()
            made.shutdown()
            thread.join()
            made.farm.close()
