"""The two ways to the farm: over HTTP, every call as a request, and the files (always this way); over one WebSocket,
calls with a `ref`, their answers in any order, and what the farm pushes."""

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from jobfarm_client import wire
from jobfarm_client.errors import refusal
from jobfarm_client.transport import Awaited, Options, Request, unreachable
from jobfarm_client.wire import object_in
from jobfarm_worker.errors import Unauthorized, Unreachable, WorkerError
from jobfarm_worker.outbox import File
from jobfarm_worker.protocol import Call, ClaimedJob

FILE_S = 300.0
FETCH_S = 30.0  # the longest silence within a download
KEY_REFUSED = 4401  # close code
CLOSE_S = 1.0  # for the farm to close a connection it has announced to close; a call would wait for that
LONGEST_MESSAGE = 250_000  # characters: a longer one would hold up the heartbeats behind it, and goes by HTTP
Push = Callable[[dict[str, Any]], None]
Take = Callable[[int, bytes], Awaitable[None]]


class MessageTooLong(WorkerError, code="message_too_long"):
    """The message is too long for the socket."""


class SocketRefused(Unreachable, code="socket_refused"):
    """The server does not open a WebSocket here, or one by which nothing comes (status 101)."""

    def __init__(self, status: int) -> None:
        super().__init__(f"The server did not open a WebSocket that works (status {status}).")
        self.status = status


class HttpLink(Awaited):
    """Requests to one farm, each sent once; to be closed.

    All raise Refused (the farm refused), Unauthorized, WrongServer (strangers answer at this address), or Unreachable
    (no usable answer; `maybe_done` says whether the call may have taken effect).
    """

    def __init__(self, *, url: str, headers: dict[str, str]) -> None:
        super().__init__(Options(url=url, headers=headers, timeout_s=wire.CONNECT_S, retry_for_s=0.0))

    async def call(self, call: Call, *, timeout_s: float) -> dict[str, Any]:
        request = Request(
            method="POST", path=call.path, body=call.body, timeout_s=timeout_s, answered_by=call.answered_by
        )
        return await self.sent(request)

    async def put(self, file: File, *, claimed: ClaimedJob) -> dict[str, Any]:
        headers = {"Content-Type": "application/octet-stream"}
        path, params = _of_file(claimed.id, "files", file.name), {"lease": claimed.lease}
        request = Request(
            method="PUT", path=path, params=params, content=file.data, headers=headers, timeout_s=FILE_S,
            answered_by="name",
        )  # fmt: skip
        return await self.sent(request)

    async def fetch(self, name: str, *, claimed: ClaimedJob, start: int, take: Take) -> None:
        """Fetch an input file once, from byte `start` on: `take` gets each piece, with the place of its first byte. A
        farm that does not know ranges begins at 0."""
        headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={start}-"} if start else {})}
        path, params = _of_file(claimed.id, "inputs", name), {"lease": claimed.lease}
        with unreachable():
            request = Request(path=path, params=params, headers=headers, timeout_s=FETCH_S)
            response = await self._send(request, follow_redirects=True)
            try:
                await self._take(response, take, start=start)
            finally:
                await self._end(response)

    async def _take(self, response: httpx.Response, take: Take, *, start: int) -> None:
        if not self.answers.is_file(response):
            raise self.answers.misfit(response, await self._body(response))
        place = start if response.status_code == httpx.codes.PARTIAL_CONTENT else 0
        async for piece in self._in_time(response):
            await take(place, piece)
            place += len(piece)


class SocketLink:
    """One connected socket, from `opened` until `closed`; to be used as an async context manager."""

    def __init__(self, connection: ClientConnection, *, on_push: Push) -> None:
        self._connection = connection
        self._on_push = on_push
        self._refs = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._ending: WorkerError = Unreachable("The socket was closed.")
        self._reader = asyncio.create_task(self._read(), name="socket reader")
        self.received = asyncio.Event()
        """The farm has sent a message: it did not accept us only to close."""

    @classmethod
    async def opened(cls, *, url: str, headers: dict[str, str], on_push: Push, timeout_s: float) -> "SocketLink":
        """Connect to `url` (ws or wss); `on_push` gets every message that answers no call.

        Raises SocketRefused when a server answered but did not open a socket, Unreachable when none did.
        """
        try:
            connection = await connect(
                url,
                additional_headers=headers,
                user_agent_header=headers.get("User-Agent"),
                open_timeout=timeout_s,
                close_timeout=CLOSE_S,
                compression=None,  # small messages; a window per socket would cost the farm its memory
                max_size=None,  # an answer holds as many payloads as we requested
            )
        except InvalidStatus as error:
            raise SocketRefused(error.response.status_code) from error
        except (OSError, ValueError, ImportError, WebSocketException) as error:  # also of where it redirects to
            raise Unreachable(str(error) or type(error).__name__, maybe_done=False) from error
        return cls(connection, on_push=on_push)

    async def call(self, call: Call, *, timeout_s: float) -> dict[str, Any]:
        """Send one call and wait for its answer; raises Refused, Unauthorized, Unreachable or MessageTooLong.

        A socket that does not answer in time is given up, and every call that waits for it with this one.
        """
        if self.is_closed:
            raise self._ending
        ref = next(self._refs)
        text = call.message(ref=ref)
        if len(text) > LONGEST_MESSAGE:
            raise MessageTooLong
        answer = self._waiting[ref] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout_s):
                await self._connection.send(text.encode(), text=True)  # what cannot be encoded must not end the socket
                return _answer(await answer)
        except TimeoutError as error:
            if not self.received.is_set():  # somebody between lets sockets open, and nothing through
                self._ending = SocketRefused(101)
            self._reader.cancel()
            raise Unreachable(f"No answer to {call.verb} within {timeout_s:g} s.") from error
        except ConnectionClosed as error:
            raise _lost(error) from error
        finally:
            self._waiting.pop(ref, None)
            if not answer.cancel() and not answer.cancelled():
                answer.exception()  # nobody reads it any more: else it would be logged with a traceback

    @property
    def is_closed(self) -> bool:
        return self._reader.done()

    async def closed(self) -> None:
        """Wait until the connection is lost; then raises Unauthorized or Unreachable."""
        await asyncio.wait({self._reader})
        raise self._ending

    async def _read(self) -> None:
        try:
            while True:
                message = object_in(await self._connection.recv())
                if message is None:
                    raise Unreachable("The answer is not a JSON object, so it did not come from a job farm.")
                self._take(message)
        except ConnectionClosed as error:
            self._ending = _lost(error)
        except Unreachable as error:
            self._ending = error
        finally:
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(self._ending)

    def _take(self, message: dict[str, Any]) -> None:
        self.received.set()
        answer = self._waiting.get(message["ref"]) if isinstance(message.get("ref"), int) else None
        if answer is None:
            self._on_push(message)
        elif not answer.done():
            answer.set_result(message)

    async def __aenter__(self) -> "SocketLink":
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            if not self.is_closed:  # one that was given up would not answer, and calls wait for the next
                self._reader.cancel()
                with contextlib.suppress(Exception):
                    async with asyncio.timeout(CLOSE_S):
                        await self._connection.close()
        finally:
            self._connection.transport.abort()


def _answer(message: dict[str, Any]) -> dict[str, Any]:
    if message.get("type") != "error":
        return message
    if message.get("status") == 401:
        raise Unauthorized
    status = message.get("status")
    raise refusal(status=status if isinstance(status, int) else 500, data=message)


def _lost(error: ConnectionClosed) -> WorkerError:
    if error.rcvd is not None and error.rcvd.code == KEY_REFUSED:
        return Unauthorized()
    return Unreachable(str(error))


def _of_file(job: int, folder: str, name: str) -> str:
    return f"/api/v1/worker/jobs/{job}/{folder}/{quote(name, safe='')}"
