"""uvicorn as the farm runs it: a deadline for the head of a request, and an end that no proxy notices."""

import asyncio
import contextlib
import functools
import signal
import socket
from types import FrameType
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from core import service
from live.protocol import LONGEST_MESSAGE

PAGES: Final = "/ws/live/"
_BYTES_A_CHARACTER: Final = 2  # of an average one, in UTF-8; what is longer still is closed with 1009
HEAD_WITHIN_S: Final = 20.0  # from the connection, or the first byte of a later request, to the end of its head
ASKS_WITHIN_S: Final = 0.5  # who connected before the listener closed sends the request by then


class Frames(WebSocketsSansIOProtocol):
    """Uvicorn's for WebSockets, with a limit of its own for those of pages: what it keeps of a message until it is
    whole is one number for all sockets, 20 MB for the workers' sake. The pages' are open to everybody, and a few
    hundred halves of messages would be all of the memory."""

    def handle_connect(self, event: Request) -> None:
        if event.path.partition("?")[0].endswith(PAGES):
            self.conn.max_message_size = _BYTES_A_CHARACTER * LONGEST_MESSAGE
        super().handle_connect(event)


class Protocol(HttpToolsProtocol):
    """Uvicorn's, which waits for the head of a request as long as its client likes, and closes idle connections the
    moment it ends: a request on its way to such a one is lost, and a proxy cannot say an unsafe one again.

    `is_of_proxy` in the scope says that a trusted one sent a request: its `client` is by then whom that speaks for.
    """

    _reads_head = True
    _is_of_proxy = False
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        trusted = getattr(self.config.loaded_app, "trusted_hosts", ())
        self._is_of_proxy = self.client is not None and self.client[0] in trusted
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._reads_head = False
        self._watch()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on. A head that came whole, as nearly all do, costs no timer."""
        super().data_received(data)
        self._watch()

    def on_message_begin(self) -> None:
        self._reads_head = True
        super().on_message_begin()
        self.scope["is_of_proxy"] = self._is_of_proxy  # type: ignore[typeddict-unknown-key]  # ours

    def on_headers_complete(self) -> None:
        """Serve it; as the last one of this connection if the server is about to end."""
        self._reads_head = False
        super().on_headers_complete()
        cycle: Any = self.cycle  # None before the first request, which may be that of a socket
        if cycle is not None and getattr(self.server_state, "is_ending", False):
            cycle.keep_alive = False

    def _watch(self) -> None:
        if self._reads_head and self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_WITHIN_S, self._close)
        elif not self._reads_head and self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()


class State(uvicorn.server.ServerState):
    """What the connections of a server share. `is_ending`: each answer is the last of its connection."""

    is_ending = False


class Server(uvicorn.Server):
    """Uvicorn's. It says when it serves, and when it is about to end.

    With `linger_s` it serves on for so long after the first SIGTERM, closing each connection with its answer: longer
    than a proxy in front keeps idle connections, and longer than it avoids a node that has refused it. By the end of
    that no request is on its way by a connection that closes, and the node that restarted before is asked again.
    """

    def __init__(self, config: uvicorn.Config, *, linger_s: float = 0.0) -> None:
        super().__init__(config)
        self._state = self.server_state = State()
        self._linger_s = linger_s

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self._linger_s:
            self._end_later(asyncio.get_running_loop())
        if self.started:
            service.ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End. Who has connected and not asked yet is served before."""
        service.stopping()
        if self._linger_s:
            taken = _accepted(sockets or [])
            for server in self.servers:
                server.close()
            await self._answer_each(taken)
        await super().shutdown(sockets=sockets)

    def _end_later(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have what handles SIGTERM now, and begins the end, do that later; a second signal does it at once."""
        ends: Any = signal.getsignal(signal.SIGTERM)

        def linger(number: int, frame: FrameType | None) -> None:
            if self._state.is_ending:
                ends(number, frame)
                return
            self._state.is_ending = True
            loop.call_soon_threadsafe(loop.call_later, self._linger_s, signal.raise_signal, number)

        signal.signal(signal.SIGTERM, linger)

    async def _answer_each(self, taken: list[socket.socket]) -> None:
        """Serve these connections too, and wait until all can have asked."""
        loop = asyncio.get_running_loop()
        new = functools.partial(Protocol, config=self.config, server_state=self._state, app_state=self.lifespan.state)
        for connection in taken:
            await loop.connect_accepted_socket(new, connection)
        await asyncio.sleep(ASKS_WITHIN_S)


def _accepted(listeners: list[socket.socket]) -> list[socket.socket]:
    """Who waits to be accepted. What is left when a listener closes is reset."""
    taken = []
    for listener in listeners:
        with contextlib.suppress(BlockingIOError):
            while True:
                taken.append(listener.accept()[0])
    return taken
