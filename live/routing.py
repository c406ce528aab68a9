"""The browsers' socket: hands messages to the conversation with its page."""

import asyncio
from typing import Any

from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.sessions import CookieMiddleware
from django.conf import settings

from live import errors, protocol
from live.admission import SHARED, Admission, SameOrigin
from live.conversation import Conversation
from observing import numbers

NOT_A_PAGE = 4400  # what it sends is no message of the protocol


class LiveConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]  # channels ships no types
    """Hands messages to the page's conversation and nothing else: a handler that waits delays all that follow.

    Anybody may connect; what they may watch is checked for each live query. The person is the one of the session
    cookie, so all this needs around it is CookieMiddleware.
    """

    channel_layer_alias = "none"  # the hub is this process's only member of the layer

    async def dispatch(self, message: dict[str, Any]) -> None:
        """Call the handler. Channels' own goes through its one synchronous thread first, for nothing."""
        match message["type"]:
            case "websocket.connect":
                await self._open()
            case "websocket.receive":
                await self._receive(message.get("text"))
            case "websocket.disconnect":
                await self._end()
                raise StopConsumer

    async def _open(self) -> None:
        await self.accept()
        session_key = self.scope.get("cookies", {}).get(settings.SESSION_COOKIE_NAME)
        self._is_over = False
        self._conversation = Conversation(session_key=session_key, send=self.send, shared=self.scope.get(SHARED))
        self._running = asyncio.create_task(self._run(), name="live: socket")

    async def _run(self) -> None:
        await self._leave(await self._conversation.run())

    async def _receive(self, text: str | None) -> None:
        if self._is_over:  # what was on its way when we closed
            return
        try:
            self._conversation.receive(text)
        except errors.BadMessage as error:
            await self._end()
            await self._leave(NOT_A_PAGE, error.message)
        except errors.TooFast as error:
            numbers.PAGE_SOCKETS_REFUSED.labels("messages").inc()
            await self._end()
            await self._leave(protocol.TOO_FAST, error.message)

    async def _leave(self, code: int, reason: str | None = None) -> None:
        if not self._is_over:
            self._is_over = True
            await self.close(code, reason)

    async def _end(self) -> None:
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)


# The consumer finds the person of the session by itself, in a thread of ours: see live.rights.
application: Any = Admission(SameOrigin(CookieMiddleware(LiveConsumer.as_asgi())))
