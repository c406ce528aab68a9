"""The browser's socket on a real server: what only the real protocol shows."""

import contextlib
import json

import pytest
import websockets
from websockets.asyncio.client import ClientConnection, connect

from tests.servers import Server, serve

pytestmark = pytest.mark.django_db(transaction=True)


def page(server: Server, *, origin: str | None = None) -> connect:
    """A connection as a browser opens it."""
    return connect(f"{server.ws_url}/ws/live/", origin=websockets.Origin(origin or server.url), open_timeout=20)


async def closed_with(socket: ClientConnection) -> int:
    """The code that the server closes with."""
    with contextlib.suppress(websockets.ConnectionClosed):
        async for _ in socket:
            pass
    assert socket.close_code is not None
    return socket.close_code


class TestServer:
    async def test_serves_pages_refuses_strangers_survives_garbage_and_stops_with_pages_open(self) -> None:
        """One server for all of it: starting one takes seconds."""
        with serve() as server:
            with pytest.raises(websockets.InvalidStatus) as refused:
                await page(server, origin="https://evil.example")
            assert refused.value.response.status_code == 403

            async with page(server) as socket:
                await socket.send(json.dumps({"watch": [{"id": "a", "name": "no-such", "args": {}}], "ping": True}))
                assert [set(json.loads(await socket.recv())) for _ in range(2)] == [
                    {"pong"},
                    {"refused", "error", "message"},
                ]

            async with page(server) as socket:
                for _ in range(100):
                    await socket.send("garbage")
                assert await closed_with(socket) == 4400

            async with page(server) as socket, page(server) as other:
                await socket.send('{"ping":true}')
                await other.send('{"ping":true}')
                await socket.recv()
                server.stop()
                assert await closed_with(socket) == await closed_with(other) == 1012
            log = server.log
        assert "Traceback" not in log
        assert "ERROR" not in log
