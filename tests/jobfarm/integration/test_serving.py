"""uvicorn as the farm runs it: how long a head may take, and how it ends."""

import asyncio
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from jobfarm import processes, serving

PATIENCE_S = 10.0
_REQUEST = b"GET / HTTP/1.1\r\nHost: farm\r\n\r\n"


async def _application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})
    elif scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close"})


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """Where a server listens in which a head may take half a second."""
    monkeypatch.setattr(serving, "HEAD_WITHIN_S", 0.5)
    config = uvicorn.Config(_application, http=serving.Protocol, lifespan="off", log_config=None)
    listener = processes.bind("127.0.0.1", 0)
    server = serving.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    yield listener.getsockname()
    server.should_exit = True
    thread.join()


@pytest.mark.parametrize(
    ("host", "at"), [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("::1", "[::1]")]
)
def test_a_farm_is_found_where_links_lead_on_its_machine(host: str, at: str) -> None:
    """At every address is at none that ALLOWED_HOSTS takes."""
    assert processes.url_at(host, 80) == f"http://{at}:80"


class TestAHead:
    def test_that_drips_ends_its_connection(self, address: tuple[str, int]) -> None:
        with socket.create_connection(address, timeout=PATIENCE_S) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHo")
            dripping = threading.Thread(target=_drip, args=[client])
            dripping.start()
            assert client.recv(100) == b""
            dripping.join()

    def test_that_never_begins_ends_its_connection(self, address: tuple[str, int]) -> None:
        with socket.create_connection(address, timeout=PATIENCE_S) as client:
            assert client.recv(100) == b""

    def test_of_a_later_request_has_as_long(self, address: tuple[str, int]) -> None:
        with socket.create_connection(address, timeout=PATIENCE_S) as client:
            client.sendall(_REQUEST)
            assert _answer(client).endswith(b"ok")
            client.sendall(b"GET /")
            assert client.recv(100) == b""


class TestTheEnd:
    def test_is_later_than_the_signal_and_each_answer_until_then_the_last(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A connection that was idle when the signal came, and one that comes after it, are both served."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
            notices.bind(str(tmp_path / "notify"))
            notices.settimeout(PATIENCE_S)
            monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
            notices_sent, answers = asyncio.run(_ended_in_the_middle(notices))
        assert notices_sent == [b"READY=1", b"STOPPING=1"]
        assert [b"connection: close" in answer for answer in answers] == [False, True, True]


async def _ended_in_the_middle(notices: socket.socket) -> tuple[list[bytes], list[bytes]]:
    """What a server says to its manager, and answers before and after SIGTERM."""
    config = uvicorn.Config(_application, http=serving.Protocol, lifespan="off", log_config=None)
    listener, loop = processes.bind("127.0.0.1", 0), asyncio.get_running_loop()
    address = listener.getsockname()
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    serves = asyncio.create_task(serving.Server(config, linger_s=0.5).serve([listener]))
    notices_sent, answers = [await loop.run_in_executor(None, notices.recv, 100)], []
    with socket.create_connection(address, timeout=PATIENCE_S) as idle:
        answers.append(await loop.run_in_executor(None, _answered, idle))
        signal.raise_signal(signal.SIGTERM)
        assert (await loop.run_in_executor(None, _socket, address)).startswith(b"HTTP/1.1 403 ")
        answers.append(await loop.run_in_executor(None, _answered, idle))
    with socket.create_connection(address, timeout=PATIENCE_S) as late:
        answers.append(await loop.run_in_executor(None, _answered, late))
    await serves
    signal.signal(signal.SIGTERM, before)
    notices_sent.append(notices.recv(100))
    return notices_sent, answers


def _socket(address: tuple[str, int]) -> bytes:
    """What a WebSocket that is opened there gets for an answer."""
    with socket.create_connection(address, timeout=PATIENCE_S) as client:
        wanted = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        client.sendall(_REQUEST[:-2] + wanted + b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
        return client.recv(1000)


def _answered(client: socket.socket) -> bytes:
    client.sendall(_REQUEST)
    return _answer(client)


def _answer(client: socket.socket) -> bytes:
    received = b""
    while not received.endswith(b"ok"):
        more = client.recv(1000)
        assert more, received
        received += more
    return received


def _drip(client: socket.socket) -> None:
    """A byte now and then, as long as the other side takes them."""
    try:
        while client.send(b"x"):
            threading.Event().wait(0.1)
    except OSError:
        return
