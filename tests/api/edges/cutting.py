"""A proxy that lets the farm do what it is asked, and loses every fourth answer on the way back."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

from tests.servers import Server

EVERY = 4


class CuttingProxy(ThreadingHTTPServer):
    """Passes requests on to a server. `cut` counts the answers that were lost."""

    def __init__(self, server: Server) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.farm = httpx.Client(base_url=server.url, timeout=60)
        self.calls = self.cut = 0
        self.counting = threading.Lock()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"

    def is_to_be_cut(self) -> bool:
        """Whether the answer to this call is one of those that are lost."""
        with self.counting:
            self.calls += 1
            is_cut = self.calls % EVERY == 0
            self.cut += is_cut
        return is_cut


class _Handler(BaseHTTPRequestHandler):
    server: CuttingProxy

    def do_POST(self) -> None:
        """Pass a call on; its answer, or nothing at all."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        names = ("Authorization", "Content-Type", "Idempotency-Key")
        kept = {name: self.headers[name] for name in names if name in self.headers}
        answer = self.server.farm.post(self.path, content=body, headers=kept)
        self.close_connection = True
        if self.server.is_to_be_cut():
            return
        self.send_response(answer.status_code)
        self.send_header("Content-Type", answer.headers["Content-Type"])
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class calls it so)
        """Say nothing."""


@contextmanager
def cutting(server: Server) -> Iterator[CuttingProxy]:
    """A proxy in front of this server."""
    with CuttingProxy(server) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
            proxy.farm.close()
