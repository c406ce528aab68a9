"""A proxy between two parts of the farm. It can go silent: connections stay open, and nothing comes through. And it can
cut answers: what was asked arrives and is done, and who asked does not hear of it."""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

T = TypeVar("T")
Target = tuple[str, int] | Path  # a TCP address, or a unix socket
Sort = Literal["http", "ws"]
_AT_ONCE = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends RST
_PIECE = 65_536
_OPENS_A_SOCKET = b"upgrade: websocket"


@dataclass(eq=False)
class _Line:
    """One connection through the proxy."""

    flows: asyncio.Event
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    sort: Sort | None = None
    is_requested: bool = False

    def reset(self) -> None:
        """End both sides with RST, as a box in between does that has forgotten the connection."""
        for writer in self.writers:
            raw = writer.transport.get_extra_info("socket")
            if raw.family == socket.AF_INET:
                with contextlib.suppress(OSError):
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            writer.transport.abort()


class Network:
    """The event loop that all proxies share, in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=30)

    def close(self) -> None:
        """End the loop and whatever goes on in it."""
        self.do(self._cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _cancel_all(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Proxy:
    """Listens at 127.0.0.1:`port`, and passes bytes to and from `target` while it is not silent."""

    def __init__(self, network: Network, target: Target) -> None:
        self._network = network
        self._target = target
        self._lines: set[_Line] = set()
        self._is_silent = False
        self._every: dict[Sort, int] = {}
        self._answers = 0
        self.cuts = 0
        """How many answers it cut."""
        self.port = network.do(self._listen())

    def fall_silent(self) -> None:
        """Half open: who writes is not refused, who reads waits. New connections are taken, and as silent."""
        self._network.do(self._set(silent=True))

    def resume(self) -> None:
        """Everything that was held up comes through after all: the outage was short."""
        self._network.do(self._set(silent=False))

    def cut_answers(self, sort: Sort, *, every: int) -> None:
        """Of calls by HTTP, or of WebSockets: one answer in `every` does not come, and its connection is reset; half of
        those that are cut break off in the middle. What was asked has arrived, and is done."""
        self._every = {sort: every}

    def spare_answers(self) -> None:
        """Cut no more of them."""
        self._every = {}

    def forget(self) -> None:
        """New connections pass; those of before are reset: the outage was longer than some box remembers."""
        self._network.do(self._forget(reset=True))

    def forsake(self) -> None:
        """New connections pass; those of before stay silent for ever: the box does not even say so."""
        self._network.do(self._forget(reset=False))

    def close(self) -> None:
        """Take no more connections, and end those there are."""
        self._network.do(self._close())

    async def _listen(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _close(self) -> None:
        self._server.close()
        while self._lines:
            for line in self._lines:
                line.flows.set()
                line.reset()
            await asyncio.sleep(0.01)

    async def _set(self, *, silent: bool) -> None:
        self._is_silent = silent
        for line in self._lines:
            (line.flows.clear if silent else line.flows.set)()

    async def _forget(self, *, reset: bool) -> None:
        self._is_silent = False
        for line in list(self._lines) if reset else ():
            line.reset()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = _Line(flows=asyncio.Event(), writers=[writer])
        if not self._is_silent:
            line.flows.set()
        self._lines.add(line)
        try:
            await line.flows.wait()
            there_reader, there_writer = await self._connect()
            line.writers.append(there_writer)
            await asyncio.gather(
                self._pass_questions(reader, there_writer, line), self._pass_answers(there_reader, writer, line)
            )
        except (OSError, EOFError):
            pass  # one side is gone: the other is told by the reset
        finally:
            self._lines.discard(line)
            line.reset()

    async def _pass_questions(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: _Line) -> None:
        async for data in _pieces(reader, line.flows):
            line.sort = line.sort or ("ws" if _OPENS_A_SOCKET in data.lower() else "http")
            line.is_requested = True
            writer.write(data)
            await writer.drain()

    async def _pass_answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: _Line) -> None:
        async for data in _pieces(reader, line.flows):
            if self._is_cut(line):
                if self.cuts % 2:
                    writer.write(data[: len(data) // 2])
                    await writer.drain()
                raise EOFError
            writer.write(data)
            await writer.drain()

    def _is_cut(self, line: _Line) -> bool:
        """Whether an answer begins here that is cut."""
        begins, line.is_requested = line.is_requested, False
        every = self._every.get(line.sort) if line.sort else None
        if not begins or every is None:
            return False
        self._answers += 1
        self.cuts += (is_cut := self._answers % every == 0)
        return is_cut

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._target, Path):
            return await asyncio.open_unix_connection(self._target)
        return await asyncio.open_connection(*self._target)


async def _pieces(reader: asyncio.StreamReader, flows: asyncio.Event) -> AsyncIterator[bytes]:
    """What comes, when it may pass. Raises EOFError at the end."""
    while data := await reader.read(_PIECE):
        await flows.wait()
        yield data
    await flows.wait()
    raise EOFError
