"""The proxy of the chaos cuts answers, and lets what was asked be done."""

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.sync.server import ServerConnection, serve

from tests.chaos.proxy import Network, Proxy


class Counting(BaseHTTPRequestHandler):
    """Answers each call with how many there were."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one piece
    done = 0

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # whose answer is cut is gone
            super().handle()

    def do_GET(self) -> None:
        Counting.done += 1
        body = f"{Counting.done:100}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Not to the tests' output."""


@pytest.fixture
def network() -> Iterator[Network]:
    network = Network()
    yield network
    network.close()


@pytest.fixture
def http(network: Network) -> Iterator[Proxy]:
    """A proxy before a server of HTTP."""
    Counting.done = 0
    with ThreadingHTTPServer(("127.0.0.1", 0), Counting) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        proxy = Proxy(network, ("127.0.0.1", server.server_port))
        yield proxy
        proxy.close()
        server.shutdown()
        serving.join()


@pytest.fixture
def ws(network: Network) -> Iterator[Proxy]:
    """A proxy before a server of WebSockets that sends back what it gets."""

    def echo(socket: ServerConnection) -> None:
        for message in socket:
            socket.send(message)

    with serve(echo, "127.0.0.1", 0) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        proxy = Proxy(network, ("127.0.0.1", server.socket.getsockname()[1]))
        yield proxy
        proxy.close()
        server.shutdown()
        serving.join()


def answered(proxy: Proxy, calls: int) -> int:
    """How many of so many calls by HTTP were answered."""
    count = 0
    with httpx.Client(trust_env=False) as client:
        for _ in range(calls):
            with contextlib.suppress(httpx.TransportError):
                count += client.get(f"http://127.0.0.1:{proxy.port}/").is_success
    return count


class TestProxy:
    def test_cuts_each_fourth_answer_and_all_is_done(self, http: Proxy) -> None:
        http.cut_answers("http", every=4)
        assert answered(http, 20) == 15
        assert (Counting.done, http.cuts) == (20, 5)

    def test_spares_answers_again(self, http: Proxy) -> None:
        http.cut_answers("http", every=1)
        assert answered(http, 2) == 0
        http.spare_answers()
        assert answered(http, 2) == 2

    def test_leaves_the_other_sort_alone(self, http: Proxy, ws: Proxy) -> None:
        http.cut_answers("ws", every=1)
        assert answered(http, 2) == 2
        ws.cut_answers("http", every=1)
        with connect(f"ws://127.0.0.1:{ws.port}", proxy=None) as socket:
            socket.send("hello")
            assert socket.recv(timeout=10) == "hello"

    def test_cuts_a_socket_after_what_it_was_asked_has_arrived(self, ws: Proxy) -> None:
        with connect(f"ws://127.0.0.1:{ws.port}", proxy=None) as socket:
            ws.cut_answers("ws", every=2)
            socket.send("first")
            assert socket.recv(timeout=10) == "first"
            socket.send("second")
            with pytest.raises(ConnectionClosed):
                socket.recv(timeout=10)
        assert ws.cuts == 1
