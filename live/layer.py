"""A Channels layer on PostgreSQL's LISTEN/NOTIFY: nothing to install beside the database (ADR 4)."""

import asyncio
import json
import logging
import os
import random
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

import psycopg
from channels.exceptions import MessageTooLarge
from channels.layers import BaseChannelLayer
from django.db import connection as django_connection
from psycopg import sql
from psycopg.pq import Escaping, ExecStatus

from core.backoff import Backoff
from observing import fields
from postgres import connections
from postgres.backend.base import DatabaseWrapper

logger = logging.getLogger("live")

MAY_HAVE_MISSED: Final = "live.reconnected"  # the type of the message that says so
_PAYLOAD_BYTES: Final = 7999  # NOTIFY refuses 8,000
_FIRST_LISTEN_S: Final = 5.0  # how long group_add waits for it; what is missed after that is made up for
_GROUP_EXPIRY_S: Final = 86_400.0  # a channel nobody received from for a day has no owner any more
_SWEEP_EVERY_S: Final = 60.0
# A peer that vanished without a word (a pulled cable, a NAT that forgot us) is noticed by the kernel after
# about 15 + 3 * 5 s, and by the check below after at most _CHECK_EVERY_S + _CHECK_WITHIN_S.
_SOCKET: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
_CHECK_EVERY_S = 20.0
_CHECK_WITHIN_S = 5.0
_RECONNECT = Backoff(first_s=0.05, cap_s=10, jitter=(0.25, 1))  # quick at first: most losses are a restart


class Listener:
    """Listens on one NOTIFY channel and calls back on the loop that runs it.

    `conninfo` is called in a thread before each attempt (it may start the embedded server). `on_payload` gets each
    payload; `listening` is called after every LISTEN that took effect, the first as well as those after a
    loss. Neither may block or raise.
    """

    def __init__(
        self, *, notify_channel: str, conninfo: Callable[[], str], on_payload: Callable[[str], None],
        listening: Callable[[], None], rng: random.Random,
    ) -> None:  # fmt: skip
        self._notify_channel = notify_channel
        self._conninfo = conninfo
        self._on_payload = on_payload
        self._listening = listening
        self._rng = rng
        self._failures = 0
        self._has_answered = False
        self.connection: Any = None
        """libpq's, while it listens."""
        self.is_unanswered = False

    async def run(self) -> None:
        """Listen until cancelled, whatever happens to the connection."""
        while True:
            try:
                await self._listen_once()
            except Exception as error:  # a listener that dies of an unlisted error goes silent for good
                self._failures += 1
                reason, *_ = str(error).splitlines() or [type(error).__name__]
                logger.warning("Lost the connection that listens (%s); trying again", reason)
            await asyncio.sleep(_RECONNECT.delay_s(self._failures + 1, rng=self._rng))

    async def _listen_once(self) -> None:
        connection = await self._connect()
        try:
            connection.add_notify_handler(lambda arrived: self._on_payload(arrived.payload))
            await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._notify_channel)))
            self._failures = 0
            self._listening()
            await self._read(connection.pgconn)
        finally:
            self.connection = None
            await connection.close()

    def ask(self, statement: bytes) -> None:
        """Send a statement by the connection that listens, where nothing `is_unanswered`. Raises psycopg.Error."""
        assert self.connection is not None
        self.connection.send_query(statement)
        self.is_unanswered = True
        self.connection.flush()

    async def _read(self, connection: Any) -> None:
        """Give on what arrives, by one reader: psycopg's generator takes two calls of epoll and a timer a message.
        Raises psycopg.Error."""
        loop, socket = asyncio.get_running_loop(), connection.socket
        lost: asyncio.Future[None] = loop.create_future()
        self.connection, self.is_unanswered = connection, False

        def read() -> None:
            try:
                self._take(connection)
            except psycopg.Error as error:
                if not lost.done():
                    lost.set_exception(error)

        loop.add_reader(socket, read)
        loop.call_soon(read)  # what came with the last answer
        try:
            while not lost.done():
                await asyncio.wait([lost], timeout=_CHECK_EVERY_S)
                self._has_answered = False
                if not (lost.done() or self.is_unanswered):
                    self.ask(b"SELECT 1")
                await asyncio.wait([lost], timeout=_CHECK_WITHIN_S)
                if not (lost.done() or self._has_answered):
                    raise psycopg.OperationalError("the server does not answer")
            lost.result()
        finally:
            loop.remove_reader(socket)

    def _take(self, connection: Any) -> None:
        connection.consume_input()
        while self.is_unanswered and not connection.is_busy():
            result = connection.get_result()
            self.is_unanswered = result is not None
            self._has_answered = True
            if result is not None and result.status == ExecStatus.FATAL_ERROR:
                logger.error("A notification was refused: %s", result.get_error_message())
        while (arrived := connection.notifies()) is not None:
            if arrived.be_pid != connection.backend_pid:  # what we posted ourselves is known here
                self._on_payload(arrived.extra.decode())

    async def _connect(self) -> psycopg.AsyncConnection[tuple[object, ...]]:
        conninfo = await asyncio.to_thread(self._conninfo)
        connection = await psycopg.AsyncConnection.connect(
            conninfo, autocommit=True, prepare_threshold=None, application_name="jobfarm live", **_SOCKET
        )
        connections.watch(connection, conninfo)
        return connection


class NotifyChannelLayer(BaseChannelLayer):  # type: ignore[misc]  # channels ships no types
    """Carries small JSON messages to channels and groups of all processes on one database.

    Each process listens on one connection, on the event loop that used the layer first. After a lost connection, and
    when a channel's queue overflowed, the channel gets `{"type": "live.reconnected"}`: read everything again. Channels
    belong to one process and are made by `new_channel`; a name without "!" is refused, for NOTIFY reaches every process
    and such a message is for one. Sending goes over Django's own connection, in a thread; `post` goes over
    the one that listens.
    """

    extensions = ["groups", "flush"]

    def __init__(self, *, capacity: int = 1000, notify_channel: str = "live") -> None:
        super().__init__(capacity=capacity)
        self._notify_channel = notify_channel
        # As text, not planned: a SELECT of pg_notify takes the server half as long again.
        self._statement = f'NOTIFY "{notify_channel}", %s'
        self._start_over()

    async def new_channel(self, prefix: str = "specific") -> str:
        """Return a channel name that only this process receives on."""
        self._listen()
        self._forget_abandoned()
        name = f"{prefix}.{self._process}!{uuid.uuid4().hex}"
        self._mailboxes[name] = _Mailbox(self.capacity)
        return name

    async def send(self, channel: str, message: dict[str, Any]) -> None:
        """Send to one channel. Raises TypeError for a bad name, MessageTooLarge from 8,000 bytes on."""
        self._require_own_channel(channel)
        await connections.run(self._notify, [_envelope("channel", channel, message)])

    async def receive(self, channel: str) -> dict[str, Any]:
        """Wait for the next message of a channel of this process."""
        self._require_own_channel(channel)
        self._listen()
        mailbox = self._mailboxes.setdefault(channel, _Mailbox(self.capacity))
        return await mailbox.take()

    async def group_add(self, group: str, channel: str) -> None:
        """Make the channel a member, and wait (5 s at most) until this process listens."""
        self.require_valid_group_name(group)
        self._require_own_channel(channel)
        self._listen()
        self._mailboxes.setdefault(channel, _Mailbox(self.capacity))
        self._groups.setdefault(group, set()).add(channel)
        try:
            async with asyncio.timeout(_FIRST_LISTEN_S):
                await self._is_listening.wait()
        except TimeoutError:
            self._missed_some = True

    async def group_discard(self, group: str, channel: str) -> None:
        """End the membership; a channel that is no member is left alone."""
        self.require_valid_group_name(group)
        self._groups.get(group, set()).discard(channel)

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        """Send to every member of the group in all processes. Raises as `send` does."""
        self.require_valid_group_name(group)
        await connections.run(self._notify, [_envelope("group", group, message)])

    def publish(self, *, group: str, messages: Iterable[Mapping[str, Any]]) -> None:
        """`group_send` several messages from synchronous code, in one round trip on its connection."""
        self._notify([_envelope("group", group, message) for message in messages])

    @property
    def is_posting(self) -> bool:
        """Whether the server has not answered what was posted last."""
        return self._listener is not None and self._listener.connection is not None and self._listener.is_unanswered

    def post(self, *, group: str, messages: Iterable[Mapping[str, Any]]) -> bool:
        """`publish` to other processes by the connection that listens, on its loop; nobody waits for it. False: it does
        not listen now."""
        listener = self._listener
        if listener is None or listener.connection is None or listener.is_unanswered:
            return False
        quote = Escaping(listener.connection).escape_literal
        payloads = [quote(_envelope("group", group, message).encode()) for message in messages]
        try:
            listener.ask(b"; ".join(f'NOTIFY "{self._notify_channel}", '.encode() + each for each in payloads))
        except psycopg.Error:
            return False
        return True

    async def flush(self) -> None:
        self._mailboxes.clear()
        self._groups.clear()

    async def close(self) -> None:
        """Stop listening and forget everything. The next use starts over, on the loop it comes from."""
        task = self._task
        self._start_over()
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            task.cancel()
            await asyncio.wait([task])

    def _start_over(self) -> None:
        self._process = uuid.uuid4().hex
        self._pid = os.getpid()
        self._task: asyncio.Task[None] | None = None
        self._listener: Listener | None = None
        self._is_listening = asyncio.Event()
        self._missed_some = False
        self._mailboxes: dict[str, _Mailbox] = {}
        self._groups: dict[str, set[str]] = {}
        self._swept_at = 0.0

    def _listen(self) -> None:
        """Start the listener on this loop. One that a fork or a closed loop left behind does not count."""
        loop = asyncio.get_running_loop()
        if self._task is not None and self._task.get_loop() is not loop:
            if self._pid == os.getpid() and self._task.get_loop().is_running():
                raise RuntimeError("This process already listens on another event loop; receive there.")
            self._start_over()
        if self._task is None or self._task.done():
            with fields.apart():
                self._listener = Listener(
                    notify_channel=self._notify_channel, conninfo=connections.direct_conninfo,
                    on_payload=self._on_payload, listening=self._listens,
                    rng=random.Random(),  # noqa: S311  # spreads reconnects of many processes; nothing secret
                )  # fmt: skip
                self._task = loop.create_task(self._listener.run(), name="live: LISTEN")

    def _listens(self) -> None:
        if self._missed_some:
            for mailbox in self._mailboxes.values():
                mailbox.put({"type": MAY_HAVE_MISSED})
        self._is_listening.set()
        self._missed_some = True  # from here on: whoever listens again has lost something in between

    def _on_payload(self, payload: str) -> None:
        for channel, message in self._addressed(payload):
            mailbox = self._mailboxes.get(channel)
            if mailbox is not None:
                mailbox.put(message)

    def _addressed(self, payload: str) -> list[tuple[str, dict[str, Any]]]:
        """Who of us gets what. Anybody with the database may NOTIFY, so a payload may be anything."""
        try:
            envelope = json.loads(payload)
            message = dict(envelope["message"])
            if "group" in envelope:
                return [(channel, dict(message)) for channel in self._groups.get(envelope["group"], ())]
            return [(channel, message) for channel in self._mailboxes if channel == envelope["channel"]]
        except (ValueError, TypeError, LookupError, RecursionError):
            logger.warning("Ignored a notification that is not ours: %.80s", payload)
            return []

    def _notify(self, payloads: list[str]) -> None:
        if not payloads:
            return
        connection = cast("DatabaseWrapper", django_connection)
        with connection.posting_cursor() as cursor:  # each commit that touched something comes by here
            cursor.execute("; ".join([self._statement] * len(payloads)), payloads)

    def _require_own_channel(self, channel: str) -> None:
        self.require_valid_channel_name(channel)
        if "!" not in channel:
            raise TypeError("This layer carries only channels of one process, made by new_channel().")

    def _forget_abandoned(self) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._swept_at + _SWEEP_EVERY_S:
            return
        self._swept_at = now
        for channel, mailbox in list(self._mailboxes.items()):
            if mailbox.idle_s(now) > _GROUP_EXPIRY_S:
                del self._mailboxes[channel]
                for members in self._groups.values():
                    members.discard(channel)


class _Mailbox:
    """Messages that wait for one channel. Beyond its capacity "read everything again" takes their place."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._messages: deque[dict[str, Any]] = deque()
        self._arrived = asyncio.Event()
        self._readers = 0
        self._read_at = asyncio.get_running_loop().time()

    def put(self, message: dict[str, Any]) -> None:
        if len(self._messages) >= self._capacity:
            self._messages.clear()
            self._messages.append({"type": MAY_HAVE_MISSED})
        self._messages.append(message)
        self._arrived.set()

    async def take(self) -> dict[str, Any]:
        self._readers += 1
        try:
            while not self._messages:
                self._arrived.clear()
                await self._arrived.wait()
            return self._messages.popleft()
        finally:
            self._readers -= 1
            self._read_at = asyncio.get_running_loop().time()

    def idle_s(self, now: float) -> float:
        return 0.0 if self._readers else now - self._read_at


def _envelope(kind: str, name: str, message: Mapping[str, Any]) -> str:
    payload = json.dumps({kind: name, "message": message})
    if len(payload) > _PAYLOAD_BYTES:
        raise MessageTooLarge(
            f"{len(payload)} bytes; NOTIFY carries {_PAYLOAD_BYTES}. Send what changed, not its state."
        )
    return payload
