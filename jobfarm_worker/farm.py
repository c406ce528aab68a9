"""The farm as the worker sees it: calls that find their way over whichever transport there is."""

import asyncio
import contextlib
import logging
import math
import random
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from jobfarm_client.backoff import Backoff
from jobfarm_client.errors import refusal
from jobfarm_worker import protocol
from jobfarm_worker.errors import Refused, Unreachable, WrongServer
from jobfarm_worker.links import HttpLink, MessageTooLong, SocketLink, SocketRefused
from jobfarm_worker.outbox import File
from jobfarm_worker.protocol import Call, ClaimedJob
from jobfarm_worker.tasks import first

Transport = Literal["auto", "ws", "http"]
Opener = Callable[[float], Awaitable[SocketLink]]

OPEN_S = 10.0
QUIET_S = 1.0  # a farm that closes the socket does so before
WAIT_S = 25  # of a claim: proxies hang up on what is silent for longer
SOCKET_AGAIN_S = 60.0  # after a server that does not open sockets; HTTP serves meanwhile
STEADY_S = 5.0  # a socket that lived this long was no accident
log = logging.getLogger("jobfarm_worker")


class Farm:
    """Every call to one farm, by WebSocket while there is one, else by HTTP; files always by HTTP."""

    def __init__(self, http: HttpLink, *, socket: Opener | None, needs_socket: bool, rng: random.Random) -> None:
        """`socket` opens one within so many seconds (None: never try); `needs_socket`: calls wait for it."""
        self.rng = rng
        self.heartbeat_s = protocol.DEFAULT_HEARTBEAT_S
        """The heartbeat interval of this farm, as the last job has it."""
        self.http = http
        self._open = socket
        self._needs_socket = needs_socket
        self._socket: SocketLink | None = None
        self._was_mute = False  # the last one that was given up let nothing through
        self._up = asyncio.Event()
        self._tried = asyncio.Event()
        self.on_up: Callable[[], None] = lambda: None
        self.on_stop: Callable[[int, float, str], None] = lambda *_: None
        """Gets the job, the claim of it that is meant (infinite: whichever it is), and why."""
        self.on_drained: Callable[[], None] = lambda: None
        self.on_share: Callable[[], None] = lambda: None
        self.is_drained = False
        """People have this worker finish what it holds and take no more, as far as an answer or a push says."""
        self.on_unclaimed: Callable[[ClaimedJob], None] = lambda _: None
        self.heartbeat_of_held: Callable[[], float] = lambda: math.inf
        """The shortest heartbeat interval of the jobs that are held; infinite while there is none."""

    @property
    def transport(self) -> str:
        """How calls travel at the moment, for people."""
        return "WebSocket" if self._socket else "no connection" if self._needs_socket else "HTTP"

    async def claim(self, call: Call, *, stop: asyncio.Event) -> list[ClaimedJob]:
        """The jobs that a claim brings, none after having waited for some. Setting `stop` ends the waiting.

        Raises Refused, Unauthorized, Unreachable or WrongServer.
        """
        answer_s = protocol.answer_s(self.heartbeat_s)
        socket = await self._socket_for(answer_s)
        is_doubtful = self._was_mute and socket is not None and not socket.received.is_set()
        waiting = protocol.waiting(call, seconds=(wait_s := 0 if is_doubtful else WAIT_S))  # so that it shows soon
        claiming = asyncio.create_task((socket or self.http).call(waiting, timeout_s=wait_s + answer_s))
        try:
            await first(claiming, stop.wait())
            return protocol.claimed_jobs(self._noted(claiming.result())) if claiming.done() else []
        finally:
            claiming.cancel()
            await asyncio.gather(claiming, return_exceptions=True)

    async def call(self, call: Call, *, heartbeat_s: float) -> dict[str, Any]:
        """Send one call once, for a job with this heartbeat interval.

        Raises Refused (also for what is no JSON by now), Unauthorized, Unreachable or WrongServer.
        """
        timeout_s = protocol.answer_s(heartbeat_s)
        socket = await self._socket_for(timeout_s)
        try:
            if socket is not None:
                with contextlib.suppress(MessageTooLong):
                    return self._noted(await socket.call(call, timeout_s=timeout_s))
            return self._noted(await self.http.call(call, timeout_s=timeout_s))
        except (TypeError, ValueError) as error:
            raise refusal(status=422, data={"error": "invalid", "message": f"It is not JSON: {error}"}) from error

    async def insist(self, call: Call, *, heartbeat_s: float) -> dict[str, Any]:
        """Send a call until the farm has answered it; only for calls that may arrive twice.

        Raises Unauthorized or Refused.
        """
        return await self._until_answered(lambda: self.call(call, heartbeat_s=heartbeat_s), heartbeat_s)

    async def put(self, file: File, *, claimed: ClaimedJob) -> None:
        """Store a result file, trying until the farm has answered; raises Refused or Unauthorized."""
        await self._until_answered(lambda: self.http.put(file, claimed=claimed), claimed.heartbeat_s)

    async def _until_answered(
        self, send: Callable[[], Awaitable[dict[str, Any]]], heartbeat_s: float
    ) -> dict[str, Any]:
        longest_s = protocol.longest_pause_s(heartbeat_s)
        backoff = Backoff(rng=self.rng, cap_s=longest_s)
        while True:
            try:
                return await send()
            except Unreachable:
                pause_s = backoff.failed()
            except Refused as error:
                if not error.is_for_now:
                    raise
                pause_s = max(backoff.failed(), min(error.retry_after_s, longest_s))
            await asyncio.sleep(pause_s)

    async def _socket_for(self, patience_s: float) -> SocketLink | None:
        """The socket, or None when HTTP is to be used; waits for it where there is no other way."""
        if self._open is None:
            return None
        await self._tried.wait()
        if self._needs_socket and self._socket is None:
            await first(self._up.wait(), timeout_s=patience_s)
            if self._socket is None:
                raise Unreachable("There is no socket to the farm.", maybe_done=False)
        return self._socket

    async def keep_socket(self) -> None:
        """Hold a socket open for as long as this runs, reconnecting with backoff and full jitter.

        Returns at once when no socket is wanted. Raises Unauthorized, or WrongServer where only a socket would do.
        """
        if self._open is None:
            return
        backoff = Backoff(rng=self.rng)
        while True:
            opened_at = asyncio.get_running_loop().time()
            try:
                await self._serve_socket(self._open)
            except SocketRefused as error:
                pause_s = self._refused_socket(error, backoff)
            except Unreachable as error:
                if asyncio.get_running_loop().time() - opened_at > STEADY_S:
                    backoff.succeeded()
                pause_s = self._pause_s(backoff)
                log.debug("no socket: %s Next try in %.1f s.", error, pause_s)
            await asyncio.sleep(pause_s)

    def _pause_s(self, backoff: Backoff) -> float:
        """A short one while jobs are held: their leases run."""
        return backoff.failed(within_s=protocol.longest_pause_s(self.heartbeat_of_held()))

    async def _serve_socket(self, opener: Opener) -> None:
        timeout_s = min(OPEN_S, protocol.answer_s(self.heartbeat_of_held()))
        try:
            async with await opener(timeout_s) as socket:
                await self._while_open(socket)
        finally:
            self._tried.set()

    async def _while_open(self, socket: SocketLink) -> None:
        """Let calls go by this socket until it is lost; raises Unauthorized or Unreachable."""
        self._socket = socket
        self.http.answers.known = True
        self._up.set()
        self._tried.set()
        self.on_up()
        try:
            # After the first message: a wrong key is let in, and the socket closed.
            await first(socket.received.wait(), socket.closed(), timeout_s=QUIET_S)
            if not socket.is_closed:
                log.info("connected by WebSocket")
            await socket.closed()
        except Unreachable as error:
            log.warning("the socket to the farm is lost: %s", error)
            raise
        finally:  # at once: closing it properly takes its time, and calls go by HTTP meanwhile
            self._socket = None
            self._up.clear()

    def _refused_socket(self, error: SocketRefused, backoff: Backoff) -> float:
        """How long to wait after a server that answered, but opened no socket that works."""
        self._was_mute = error.status == 101
        if not self._needs_socket:
            log.info("%s HTTP it is; the socket is retried now and then.", error)
            return SOCKET_AGAIN_S
        if error.status >= 500 or self.http.answers.known:
            return self._pause_s(backoff)
        raise WrongServer(f"{error} Is the key right, and the address? HTTP may do: --transport http.")

    def pushed(self, message: dict[str, Any]) -> None:
        """Take a message that nobody waits for: a job is to stop, an answer comes late.

        That there is work is said to who just came, and to who does not wait by a claim.
        """
        if message.get("ref") is not None:  # a call of ours that was given up: nobody here runs the jobs of its answer
            with contextlib.suppress(Unreachable):
                for job in protocol.claimed_jobs(message):
                    self.on_unclaimed(job)
        elif message.get("type") == "stop" and isinstance(message.get("job"), int):
            fence = message.get("fence")  # an older farm does not say it
            meant = fence if isinstance(fence, int) else math.inf
            self.on_stop(message["job"], meant, str(message.get("reason") or "canceled"))
        elif message.get("type") == "share":
            self.on_share()
        elif message.get("type") == "drained":
            self._noted(message)
        elif message.get("type") == "error":
            log.error("the farm complains: %s", message.get("message"))

    def _noted(self, answer: dict[str, Any]) -> dict[str, Any]:
        """The answer; whether this worker is drained, if it says so, is noted."""
        is_drained = answer.get("drained", self.is_drained) is True
        if is_drained != self.is_drained:
            self.is_drained = is_drained
            log.info("drained: the farm gives no more jobs" if is_drained else "not drained any more")
            if is_drained:
                self.on_drained()
        return answer
