"""How topics leave this process. The only place that knows which channel layer is configured."""

import asyncio
import logging
import os
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer

from live import topics as topic_names
from live.layer import NotifyChannelLayer

logger = logging.getLogger("live")

_SEND_WITHIN_S = 3.0  # a Redis that does not answer may not hold up who just committed


def publish(topics: Sequence[str]) -> None:
    """Send the topics to the hubs of all processes. Never raises: what goes wrong is logged."""
    try:
        messages = list(topic_names.messages(topics))
        layer = get_channel_layer()
        if isinstance(layer, NotifyChannelLayer):
            layer.publish(group=topic_names.GROUP, messages=messages)
        else:
            _send_on_a_loop(layer, messages)
    except Exception as error:  # whatever a layer raises: the write before it is committed and stays
        _log_error(error)


class _Home:
    """The event loop on which this process keeps its hub, if it has one. A fork does not inherit it."""

    def __init__(self) -> None:
        self._pid = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def settle(self, loop: asyncio.AbstractEventLoop) -> None:
        self._pid, self._loop = os.getpid(), loop

    def leave(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is loop:
            self._loop = None

    def loop(self) -> asyncio.AbstractEventLoop | None:
        here = self._pid == os.getpid() and self._loop is not None and self._loop.is_running()
        return self._loop if here else None


home = _Home()


def _send_on_a_loop(layer: Any, messages: list[dict[str, Any]]) -> None:
    async def send() -> None:
        async with asyncio.timeout(_SEND_WITHIN_S):
            for message in messages:
                await layer.group_send(topic_names.GROUP, message)

    loop = home.loop()
    if loop is None:
        async_to_sync(send)()
    else:
        asyncio.run_coroutine_threadsafe(send(), loop).add_done_callback(_log_failure)


def _log_failure(sent: "Future[None]") -> None:
    if not sent.cancelled() and (error := sent.exception()) is not None:
        _log_error(error)


def _log_error(error: BaseException) -> None:
    """One line, not a traceback: while a server is down, every write comes by here."""
    logger.error(
        "Could not publish (%s: %s); watchers find out at their next poll", type(error).__name__, error
    )
