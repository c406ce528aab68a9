"""The farm as the worker sees it: calls that find their way over whichever transport there is."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

from jobfarm_worker import wire
from jobfarm_worker.backoff import Backoff
from jobfarm_worker.errors import Refused, Unreachable, WrongServer
from jobfarm_worker.http_link import HttpLink
from jobfarm_worker.outbox import File
from jobfarm_worker.socket_link import SocketLink, SocketRefused
from jobfarm_worker.wire import Call, ClaimedJob

Transport = Literal["auto", "ws", "http"]

CALL_S = 20.0
FILE_S = 300.0
ANSWER_CAP_S = 10.0  # between two sendings of one call: well within a lease of 60 s
LONG_POLL_S = 25
ASK_ANYWAY_S = 30.0  # a push that got lost costs this much, not the job
SOCKET_AGAIN_S = 60.0  # after a server that does not open sockets; HTTP serves meanwhile
STEADY_S = 5.0  # a socket that lived this long was no accident
log = logging.getLogger("jobfarm_worker")


class Farm:
    """Every call to one farm, by WebSocket while there is one, else by HTTP; files always by HTTP."""

    def __init__(
        self,
        http: HttpLink,
        *,
        socket: Callable[[], Awaitable[SocketLink]] | None,
        needs_socket: bool,
        rng: random.Random,
    ) -> None:
        """`socket` opens one (None: never try); `needs_socket`: calls wait for it, none goes by HTTP."""
        self._http = http
        self._open = socket
        self._needs_socket = needs_socket
        self._rng = rng
        self._socket: SocketLink | None = None
        self._up = asyncio.Event()
        self._tried = asyncio.Event()
        self._work = asyncio.Event()
        self.on_up: Callable[[], None] = _nothing
        self.on_stop: Callable[[int, str], None] = _nothing_for

    @property
    def transport(self) -> str:
        """How calls travel at the moment, for people."""
        return "WebSocket" if self._socket else "no connection" if self._needs_socket else "HTTP"

    async def claim(
        self, *, queues: Sequence[str] | None, limit: int, stop: asyncio.Event
    ) -> list[ClaimedJob]:
        """Up to `limit` jobs; an empty list after having waited for some. Setting `stop` ends the waiting.

        Raises Refused, Unauthorized, Unreachable or WrongServer.
        """
        socket = await self._socket_for(CALL_S)
        if socket is None:
            return await self._long_poll(
                wire.claim(queues=queues, limit=limit, wait_s=LONG_POLL_S), stop=stop
            )
        self._work.clear()  # before asking: a push that comes after this belongs to the next round
        answer = await socket.call(wire.claim(queues=queues, limit=limit), timeout_s=CALL_S)
        jobs = wire.claimed_jobs(answer)
        if not jobs:
            await _first(self._work.wait(), socket.closed(), stop.wait(), timeout_s=ASK_ANYWAY_S)
        return jobs

    async def _long_poll(self, call: Call, *, stop: asyncio.Event) -> list[ClaimedJob]:
        asking = asyncio.create_task(self._http.call(call, timeout_s=LONG_POLL_S + CALL_S))
        try:
            await _first(asyncio.shield(asking), stop.wait(), timeout_s=None)
            return wire.claimed_jobs(asking.result()) if asking.done() else []
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def call(self, call: Call, *, timeout_s: float = CALL_S) -> dict[str, Any]:
        """Send one call once; raises Refused, Unauthorized, Unreachable or WrongServer."""
        socket = await self._socket_for(timeout_s)
        if socket is None:
            return await self._http.call(call, timeout_s=timeout_s)
        return await socket.call(call, timeout_s=timeout_s)

    async def insist(self, call: Call) -> dict[str, Any]:
        """Send a call again and again until the farm has answered it; only for calls that may arrive twice.

        Raises Unauthorized, or Refused with `resent`: an earlier sending may have taken effect.
        """
        return await self._until_answered(lambda: self.call(call))

    async def put(self, file: File, *, job: int, lease: str) -> None:
        """Store a result file, trying until the farm has answered; raises Refused or Unauthorized."""

        async def send() -> dict[str, Any]:
            await self._http.put(file, job=job, lease=lease, timeout_s=FILE_S)
            return {}

        await self._until_answered(send)

    async def _until_answered(self, send: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        backoff = Backoff(rng=self._rng, cap_s=ANSWER_CAP_S)
        maybe_done = False
        while True:
            try:
                return await send()
            except Unreachable as error:
                maybe_done = maybe_done or error.maybe_done
                pause_s = backoff.failed()
            except Refused as error:
                error.resent = maybe_done
                if not error.is_for_now:
                    raise
                maybe_done = maybe_done or error.status >= 500
                pause_s = max(backoff.failed(), error.retry_after_s)
            await asyncio.sleep(pause_s)

    async def _socket_for(self, patience_s: float) -> SocketLink | None:
        """The socket, or None when HTTP is to be used; waits for it where there is no other way."""
        if self._open is None:
            return None
        await self._tried.wait()
        if self._needs_socket and self._socket is None:
            await _first(self._up.wait(), timeout_s=patience_s)
            if self._socket is None:
                raise Unreachable("There is no socket to the farm.", maybe_done=False)
        return self._socket

    async def keep_socket(self) -> None:
        """Hold a socket open for as long as this runs, reconnecting with backoff and full jitter.

        Returns at once when no socket is wanted. Raises Unauthorized, or WrongServer where only a socket
        would do.
        """
        if self._open is None:
            return
        backoff = Backoff(rng=self._rng)
        while True:
            opened_at = asyncio.get_running_loop().time()
            try:
                await self._serve_socket(self._open)
            except SocketRefused as error:
                pause_s = self._refused_socket(error, backoff)
            except Unreachable as error:
                if asyncio.get_running_loop().time() - opened_at > STEADY_S:
                    backoff.succeeded()
                pause_s = backoff.failed()
                log.debug("no socket: %s Next try in %.1f s.", error, pause_s)
            await asyncio.sleep(pause_s)

    async def _serve_socket(self, opener: Callable[[], Awaitable[SocketLink]]) -> None:
        try:
            async with await opener() as socket:
                self._socket = socket
                self._http.known = True
                self._up.set()
                self._tried.set()
                log.info("connected by WebSocket")
                self.on_up()
                await socket.closed()
        except Unreachable as error:
            if self._up.is_set():
                log.warning("the socket to the farm is lost: %s", error)
            raise
        finally:
            self._socket = None
            self._up.clear()
            self._tried.set()

    def _refused_socket(self, error: SocketRefused, backoff: Backoff) -> float:
        """How long to wait after a server that answered, but opened no socket."""
        if not self._needs_socket:
            log.info("%s HTTP it is; the socket is tried again now and then.", error)
            return SOCKET_AGAIN_S
        if error.status >= 500 or self._http.known:
            return backoff.failed()
        raise WrongServer(f"{error} Is the key right, and the address? HTTP may do: --transport http.")

    def look_again(self) -> None:
        """End the waiting of a claim: there may be work that nobody announced."""
        self._work.set()

    def pushed(self, message: dict[str, Any]) -> None:
        """Take a message that answers no call: there is work, or a job is to stop."""
        if message.get("type") == "work":
            self._work.set()
        elif message.get("type") == "stop" and isinstance(message.get("job"), int):
            self.on_stop(message["job"], str(message.get("reason") or "canceled"))
        elif message.get("type") == "error":
            log.error("the farm complains: %s", message.get("message"))


async def _first(*awaitables: Awaitable[Any], timeout_s: float | None) -> None:
    """Wait until one of them is done or the time is up, and cancel the others; errors are ignored."""
    tasks = {asyncio.ensure_future(each) for each in awaitables}
    try:
        await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _nothing() -> None:
    """Nobody listens yet."""


def _nothing_for(_job: int, _reason: str) -> None:
    """Nobody listens yet."""
