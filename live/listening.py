"""One LISTEN connection that lives for ever: it reconnects, and reports when it may have missed something."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import sql

from core.backoff import Backoff
from postgres import connections

logger = logging.getLogger("live")

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
        async with await self._connect() as connection:
            await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._notify_channel)))
            self._failures = 0
            self._listening()
            while True:
                async with contextlib.aclosing(connection.notifies(timeout=_CHECK_EVERY_S)) as arriving:
                    async for notification in arriving:
                        self._on_payload(notification.payload)
                async with asyncio.timeout(_CHECK_WITHIN_S):
                    await connection.execute("SELECT 1")

    async def _connect(self) -> psycopg.AsyncConnection[tuple[object, ...]]:
        conninfo = await asyncio.to_thread(self._conninfo)
        connection = await psycopg.AsyncConnection.connect(
            conninfo, autocommit=True, prepare_threshold=None, application_name="jobfarm live", **_SOCKET
        )
        connections.watch(connection, conninfo)
        return connection
