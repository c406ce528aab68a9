"""A pool of connections to model servers: to connect anew for each answer takes a third of a worker's
processor time."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

import aiohttp
import httpx

LIFE_S = 30.0  # then it is closed after the call that it carries: behind a balancer it leads to one server for ever
IDLE_S = 1.0  # that a connection is kept: servers end them after two seconds and more, as a call may be on its way
is_reused: ContextVar[bool] = ContextVar("is_reused")  # whether the latest call went by one that another used before
_used_since: WeakKeyDictionary[Any, float] = WeakKeyDictionary()  # by the connection's protocol
_sessions: dict[asyncio.AbstractEventLoop, tuple[aiohttp.ClientSession, AsyncGenerator[Any, None]]] = {}


async def session() -> aiohttp.ClientSession:
    """The one of this event loop, which connections belong to; closed as the loop's generators are."""
    loop = asyncio.get_running_loop()
    if loop not in _sessions:
        opened = _opened(loop)
        _sessions[loop] = await anext(opened), opened
    return _sessions[loop][0]


async def _opened(loop: asyncio.AbstractEventLoop) -> AsyncGenerator[aiohttp.ClientSession, None]:
    # The certificates are shared: to read those of 140 authorities takes 30 ms and more of a processor.
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_S, ssl=httpx.create_ssl_context())
    jar = aiohttp.DummyCookieJar()  # no answer is to change the next call
    async with aiohttp.ClientSession(connector=connector, cookie_jar=jar, request_class=_Call) as session:
        try:
            yield session
        finally:
            del _sessions[loop]


class _Call(aiohttp.ClientRequest):
    async def send(self, conn: Any) -> aiohttp.ClientResponse:
        is_reused.set(conn.protocol in _used_since)
        if conn.protocol.should_close:  # something came unasked, which would be read as the answer
            raise aiohttp.ServerDisconnectedError
        if (now := time.monotonic()) > _used_since.setdefault(conn.protocol, now) + LIFE_S:
            conn.protocol.force_close()
        return await super().send(conn)
