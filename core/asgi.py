"""The types of ASGI applications, the headers and the body of a request, and the answer to one whose body was not read
to its end.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager, suppress
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Final

Scope = MutableMapping[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Header = tuple[bytes, bytes]


def header(scope: Scope, name: str) -> str:
    """The value of a request's header; empty if it has none."""
    wanted = name.lower().encode()
    for key, value in scope["headers"]:
        if key == wanted:
            return str(value, "latin-1")
    return ""


SPOOLED_OVER: Final = 1 << 20  # bytes: the calls of most clients are far below
DRAIN_S: Final = 3.0  # for a client that sends on: closed at once, it would see a reset and never our answer


class ClientGone(Exception):
    """The client went away before its request was whole."""


async def piece(receive: Receive) -> tuple[bytes, bool]:
    """The next piece of a body, and whether it was the last. Raises ClientGone."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientGone
    return message.get("body", b""), not message.get("more_body")


async def wait_until_gone(receive: Receive) -> None:
    """Wait until the client goes away, and drop what else it sends."""
    while (await receive())["type"] != "http.disconnect":
        pass


@asynccontextmanager
async def spooled(receive: Receive) -> AsyncIterator[IO[bytes]]:
    """The whole body of a request, of which no more than SPOOLED_OVER bytes are held in memory; how long it may be is
    bounded further out. Raises ClientGone."""
    with SpooledTemporaryFile(max_size=SPOOLED_OVER) as file:
        is_read = False
        while not is_read:
            part, is_read = await piece(receive)
            file.write(part)
        file.seek(0)
        yield file


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
