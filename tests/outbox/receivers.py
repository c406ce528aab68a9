"""Receivers on this machine: real sockets, with whatever manners a test wants them to have."""

import asyncio
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network

HERE = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
Behave = Callable[["Receiver", asyncio.StreamWriter, "Request"], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request as it came."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    at: float = field(default_factory=time.time)


@dataclass(kw_only=True)
class Receiver:
    """Where it listens, and what it got. `status` is what it answers, unless it behaves in another way."""

    behave: "Behave"
    status: int = 204
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    port: int = 0
    scheme: str = "http"
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    came: threading.Condition = field(default_factory=threading.Condition)

    def url(self, path: str = "/hook", *, host: str = "127.0.0.1") -> str:
        """Its address."""
        return f"{self.scheme}://{host}:{self.port}{path}"

    def wait_for(self, count: int, *, within_s: float = 30.0) -> list[Request]:
        """So many requests, as soon as they have come."""
        with self.came:
            assert self.came.wait_for(lambda: len(self.requests) >= count, within_s), len(self.requests)
            return list(self.requests)


async def answers(receiver: Receiver, writer: asyncio.StreamWriter, _: Request) -> None:
    """Answer with `status`, `headers` and `body`."""
    head = {"content-length": str(len(receiver.body)), **receiver.headers}
    if receiver.status == 204:
        head.pop("content-length")
    lines = [f"HTTP/1.1 {receiver.status} X", *(f"{name}: {value}" for name, value in head.items()), "", ""]
    writer.write("\r\n".join(lines).encode() + receiver.body)
    await writer.drain()


async def hangs(_: Receiver, writer: asyncio.StreamWriter, __: Request) -> None:
    """Say nothing until the other side gives up."""
    await writer.wait_closed()


async def hangs_up(_: Receiver, writer: asyncio.StreamWriter, __: Request) -> None:
    """Take the request, and close without a word."""
    writer.close()


async def drips(_: Receiver, writer: asyncio.StreamWriter, __: Request) -> None:
    """Answer one byte at a time, each soon enough for who waits for bytes alone."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.05)


async def floods(_: Receiver, writer: asyncio.StreamWriter, __: Request) -> None:
    """Answer without end."""
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"8000\r\n" + b"y" * 0x8000 + b"\r\n")
        await writer.drain()


@contextmanager
def receiver(behave: Behave = answers, *, tls: ssl.SSLContext | None = None, status: int = 204) -> Iterator[Receiver]:
    """A receiver in a thread of its own, until the end of the block."""
    one = Receiver(behave=behave, status=status, scheme="https" if tls else "http")
    loop = asyncio.new_event_loop()
    is_ready, stop = threading.Event(), asyncio.Event()
    clients: set[asyncio.Task[object] | None] = set()  # a loop itself holds its tasks weakly

    async def serve() -> None:
        async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            clients.add(asyncio.current_task())
            with one.came:
                one.connections += 1
            try:
                while not writer.is_closing():
                    request = await _read(reader)
                    with one.came:
                        one.requests.append(request)
                        one.came.notify_all()
                    await one.behave(one, writer, request)
            except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(client, "127.0.0.1", 0, ssl=tls)
        one.port = server.sockets[0].getsockname()[1]
        is_ready.set()
        await stop.wait()
        server.close()
        open_ones = [task for task in clients if task is not None]
        for task in open_ones:
            task.cancel()
        await asyncio.gather(*open_ones, return_exceptions=True)

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    is_ready.wait()
    try:
        yield one
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(path=head[0].split(" ")[1], headers=headers, body=body)
