"""Reading the body of a request, and answering one whose body was not read to its end."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from tempfile import SpooledTemporaryFile
from typing import Final, Self

from core.asgi import Receive, Send

SPOOLED_OVER: Final = 1 << 20  # bytes: the calls of most clients are far below
PIECE: Final = 1 << 16
DRAIN_S: Final = 3.0  # for a client that sends on: closed at once, it would see a reset and never our answer


class ClientGone(Exception):
    """The client went away before its request was whole."""


async def piece(receive: Receive) -> tuple[bytes, bool]:
    """The next piece of a body, and whether it was the last. Raises ClientGone."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientGone
    return message.get("body", b""), not message.get("more_body")


class Spooled:
    """The body of one request, of which no more than SPOOLED_OVER bytes are held in memory."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(max_size=SPOOLED_OVER)  # noqa: SIM115 (closed by `__exit__`)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    async def read_from(self, receive: Receive) -> None:
        """Take in the whole body; how long it may be is bounded further out. Raises ClientGone."""
        is_read = False
        while not is_read:
            part, is_read = await piece(receive)
            self._file.write(part)
        self._file.seek(0)

    def next_piece(self) -> tuple[bytes, bool]:
        part = self._file.read(PIECE)
        return part, len(part) < PIECE


async def whole(receive: Receive) -> bytes:
    """The whole body of a request; how long it may be is bounded further out. Raises ClientGone."""
    pieces: list[bytes] = []
    is_read = False
    while not is_read:
        part, is_read = await piece(receive)
        pieces.append(part)
    return b"".join(pieces)


async def answer(
    receive: Receive, send: Send, *, status: int, headers: Mapping[str, str], body: bytes, is_read: bool
) -> None:
    """Answer in JSON. A client whose request is not read (`is_read`) is listened to for DRAIN_S at most."""
    named = {"content-type": "application/json", "content-length": str(len(body)), **headers}
    if not is_read:
        named["connection"] = "close"
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in named.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body, "more_body": not is_read})
    if not is_read:
        await _drain(receive)
        await send({"type": "http.response.body", "body": b""})


async def _drain(receive: Receive) -> None:
    with suppress(TimeoutError, ClientGone):
        async with asyncio.timeout(DRAIN_S):
            while not (await piece(receive))[1]:
                pass
