"""A flood of page sockets, in a process of its own so that it takes nothing from who measures beside it.

.venv/bin/python -m benchmarks.flooding PORT WAY SOCKETS

Nobody is logged in. Each socket asks, waits for the answer and asks again; a closed or refused one comes back at once.
Bytes are made ahead and answers are not read, so that the flood costs the machine as little as it can. Runs until it
is terminated.
"""

import asyncio
import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

# What a browser sends.
HANDSHAKE: Final = (
    "GET /ws/live/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
    "Connection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
REST_S: Final = 0.001  # the answer to the next question is read together with what is left of the last


def frame(message: object) -> bytes:
    """A text frame as a browser sends it, masked with zeros."""
    text = json.dumps(message).encode()
    assert len(text) < 1 << 16
    length = bytes([0x80 | len(text)]) if len(text) < 126 else b"\xfe" + len(text).to_bytes(2, "big")
    return b"\x81" + length + bytes(4) + text


def watch_request(number: int = 0, **more: str) -> dict[str, object]:
    """A part of a job's page."""
    return {"id": f"w{number}", "name": "job", "args": {"job_id": number + 1}, **more}


# What each socket repeats; nothing: it comes and goes.
WAYS: Final[Mapping[str, bytes]] = {
    "watch": frame({"watch": [watch_request()]}),
    "watch with an invented ticket": frame({"watch": [watch_request(ticket="x" * 43)]}),
    "200 watches": frame({"watch": [watch_request(number) for number in range(200)]}),
    "ping": frame({"ping": True}),
    "unwatch": frame({"unwatch": [f"{'i' * 58}{number}" for number in range(500)], "ping": True}),
    "come and go": b"",
}


async def flood(port: int, way: str, sockets: int) -> None:
    """So many sockets, for ever."""
    await asyncio.gather(*(_one(port, WAYS[way]) for _ in range(sockets)))


async def _one(port: int, message: bytes) -> None:
    while True:
        with suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                await _repeat(reader, writer, HANDSHAKE.format(port=port).encode(), message)
            finally:
                writer.transport.abort()


async def _repeat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handshake: bytes, message: bytes) -> None:
    writer.write(handshake)
    is_open = b" 101 " in await reader.readuntil(b"\r\n")
    while is_open and message:
        writer.write(message)
        await writer.drain()
        is_open = bool(await reader.read(1 << 16))
        await asyncio.sleep(0 if len(message) < 200 else REST_S)


if __name__ == "__main__":
    asyncio.run(flood(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
