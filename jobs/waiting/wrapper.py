"""The calls of jobs that wait, outside of Django: claims, and those that follow events."""

import asyncio
import re
from collections.abc import Callable
from typing import Final

from core.asgi import Receive, Scope, Send
from jobs.protocol.jobs import API
from jobs.waiting.events import EventStream
from jobs.waiting.long_poll import LongPoll
from jobs.waiting.matching import Changes
from jobs.waiting.notifier import Notifier
from jobs.waiting.requests import Django, Handler, Places

_CLAIM: Final = f"{API}/worker/claim"
ADDRESSES: Final = re.compile(rf"{API}/(?:worker/claim|(?:jobs/(?:[0-9]{{1,19}}/)?)?events)")


class Waiting:
    """Serves ADDRESSES. `notifier` gives the process's notifier, made when it is first wanted."""

    def __init__(self, handler: Handler, *, notifier: Callable[[], Notifier], stopping: asyncio.Event) -> None:
        self._handler = handler
        self._notifier = notifier
        self._stopping = stopping
        self._places = Places()
        self._changes = Changes()
        self._django = Django(handler)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if scope["method"] == "POST" and path == _CLAIM:
            waits = LongPoll(self._django, self._notifier(), self._stopping, self._places)
            await waits.serve(scope, receive, send)
        elif scope["method"] == "GET" and path != _CLAIM:
            await EventStream(self._django, self._stopping, self._places, self._changes).serve(scope, receive, send)
        else:
            await self._handler(scope, receive, send)
