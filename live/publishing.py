"""How topics leave this process. The only place that knows which channel layer is configured.

In a process with a hub, which is a web server, they leave by its event loop, and those of one moment together
(docs/adr/0062): whoever commits hands them over and goes on. Any other process sends what it commits itself.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Iterable, Sequence
from typing import Any, Final

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer

from live import topics as topic_names
from live.layer import NotifyChannelLayer
from observing import fields
from postgres import connections

logger = logging.getLogger("live")

_SEND_WITHIN_S: Final = 3.0  # a Redis that does not answer may not hold up who just committed
# What is touched so soon after a message went out goes with the next: at most 200 messages a second from a process,
# each of which wakes every process of the farm. The first is not held back.
_GATHER_S: Final = 0.005


def publish(topics: Sequence[str]) -> None:
    """Send the topics to the hubs of all processes. Never raises: what goes wrong is logged."""
    try:
        if not home.hand_over(topics):
            _send(topics)
    except Exception as error:  # whatever a layer raises: the write before it is committed and stays
        _log_error(error)


class _Outgoing:
    """Topics on their way out by an event loop; what comes while a message is being sent goes with the next."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._lock = threading.Lock()
        self._topics: dict[str, None] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, topics: Iterable[str]) -> None:
        """Let these go out too. From any thread. Raises RuntimeError once the loop is closed."""
        with self._lock:
            is_first = not self._topics
            self._topics.update(dict.fromkeys(topics))
        if is_first:
            self.loop.call_soon_threadsafe(self._begin)

    async def drained(self) -> None:
        """Wait until what was added before has gone out."""
        while self._topics or self._task is not None:
            await asyncio.wait([self._begin()])

    def _begin(self) -> asyncio.Task[None]:
        if self._task is None:
            with fields.apart():
                self._task = self.loop.create_task(self._send_all(), name="live: publish")
        return self._task

    async def _send_all(self) -> None:
        try:
            while topics := self._taken():
                await _send_on_loop(topics)
                await asyncio.sleep(_GATHER_S)
        finally:
            self._task = None

    def _taken(self) -> list[str]:
        with self._lock:
            topics, self._topics = sorted(self._topics), {}
        return topics


class _Home:
    """The event loop on which this process keeps its hub, if it has one. A fork does not inherit it."""

    def __init__(self) -> None:
        self._pid = 0
        self._outgoing: _Outgoing | None = None

    def settle(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let topics leave by this loop."""
        self._pid, self._outgoing = os.getpid(), _Outgoing(loop)

    async def leave(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let them leave by this loop no more, once those that were handed over have gone out."""
        outgoing = self._outgoing
        if outgoing is not None and outgoing.loop is loop:
            self._outgoing = None
            await outgoing.drained()

    def hand_over(self, topics: Iterable[str]) -> bool:
        """Whether there is such a loop, which has them now."""
        outgoing = self._outgoing
        if outgoing is None or self._pid != os.getpid() or not outgoing.loop.is_running():
            return False
        outgoing.add(topics)
        return True


home = _Home()


def _send(topics: Sequence[str]) -> None:
    layer = get_channel_layer()
    if isinstance(layer, NotifyChannelLayer):
        layer.publish(group=topic_names.GROUP, messages=topic_names.messages(topics))
    else:
        async_to_sync(_send_by)(layer, topics)


async def _send_on_loop(topics: Sequence[str]) -> None:
    """Send them from an event loop. Never raises: what goes wrong is logged."""
    try:
        layer = get_channel_layer()
        if isinstance(layer, NotifyChannelLayer):
            await connections.run(_send, topics)
        else:
            await _send_by(layer, topics)
    except Exception as error:
        _log_error(error)


async def _send_by(layer: Any, topics: Sequence[str]) -> None:
    async with asyncio.timeout(_SEND_WITHIN_S):
        for message in topic_names.messages(topics):
            await layer.group_send(topic_names.GROUP, message)


def _log_error(error: BaseException) -> None:
    """One line, not a traceback: while a server is down, every write comes by here."""
    logger.error(
        "Could not publish (%s: %s); watchers find out at their next poll", type(error).__name__, error
    )
