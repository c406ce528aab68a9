"""The browsers' socket: which are let in, those of pages of this very site and of the origins that the settings trust,
so many of one address, so many in all, and so often; and what hands their messages to the conversation with the page.

A socket carries the cookies of whoever opens it, and no CSRF token. Cookies know no port, and a site's by name alone is
also that of another program on the same machine: so scheme, name and port all count, as for Django's forms
(CSRF_TRUSTED_ORIGINS, https://docs.djangoproject.com/en/5.2/ref/csrf/)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.security.websocket import WebsocketDenier
from channels.sessions import CookieMiddleware
from django.conf import settings
from django.http.request import split_domain_port, validate_host

from core.asgi import App, Receive, Scope, Send
from live import addresses, errors
from live.conversation import Conversation
from live.protocol import TOO_FAST, Bucket
from observing import numbers

logger = logging.getLogger("live")

# All pages of an address come back at once after a restart, so it may open as many at once as it may hold; then one
# fiftieth of that a second.
_OPENED_OVER_S: Final = 50.0
# What all pages of an address may request together, as a multiple of what one socket may.
_SHARED_BY: Final = 20
# What a socket that was closed for its flood counts as: who floods, is closed and comes back at once comes back seldom.
_FLOOD_COUNTS: Final = 25
# Who is refused gets the answer late, and tries again only then: a timer costs nothing, a handshake a millisecond.
_ANSWER_AFTER_S: Final = 2.0
_MOST_UNANSWERED: Final = 1000
SHARED: Final = "live.shared"  # in the scope: the bucket that the pages of an address share
_MOST_REMEMBERED: Final = 10_000
_LOG_EVERY_S: Final = 60.0
Application = Callable[[Any, Any, Any], Awaitable[Any]]
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
Origin = tuple[str, str, int | None]
NOT_A_PAGE: Final = 4400  # what it sends is no message of the protocol


class _Address:
    """What one address has open, how many it may open now, and what its pages may ask for together."""

    def __init__(self, *, now: float) -> None:
        most = settings.LIVE["SOCKETS_PER_ADDRESS"]
        self.open = 0
        self.openings = Bucket(capacity=most, rate=most / _OPENED_OVER_S, now=now)
        burst, rate = settings.LIVE["BURST"], settings.LIVE["PER_SECOND"]
        self.requests = Bucket(capacity=_SHARED_BY * burst, rate=_SHARED_BY * rate, now=now)


class Admission:
    """An ASGI application for sockets: serves those that are let in by `app`, and refuses the others with 403.

    Of one process. Where the server names no address (a UNIX socket without a proxy that names it), only the
    number in all is bounded.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._open = 0
        self._unanswered = 0
        self._addresses: dict[str, _Address] = {}
        self._logged_at = float("-inf")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        address = addresses.network_of(scope)
        reason = self._why_not(address)
        if reason is None:
            await self._serve(address, scope, receive, send)
            return
        numbers.PAGE_SOCKETS_REFUSED.labels(reason).inc()
        self._log(reason, address)
        await self._refuse(receive, send)

    def _why_not(self, address: str | None) -> str | None:
        if self._open >= settings.LIVE["SOCKETS"]:
            return "process"
        if address is None:
            return None
        entry = self._entry(address)
        if entry.open >= settings.LIVE["SOCKETS_PER_ADDRESS"]:
            return "address"
        if not entry.openings.has(1, now=_now()):
            return "openings"
        entry.openings.take(1, now=_now())
        return None

    async def _serve(self, address: str | None, scope: Scope, receive: Receive, send: Send) -> None:
        async def watched(message: Mapping[str, Any]) -> None:
            if address is not None and message.get("code") == TOO_FAST:
                self._entry(address).openings.take(_FLOOD_COUNTS, now=_now())
            await send(message)

        self._count(address, 1)
        if address is not None:
            scope = {**scope, SHARED: self._entry(address).requests}
        try:
            await self._app(scope, receive, watched)
        finally:
            self._count(address, -1)

    def _count(self, address: str | None, change: int) -> None:
        self._open += change
        if address is None:
            return
        entry = self._entry(address)
        entry.open += change
        if not entry.open and entry.openings.is_full(now=_now()) and entry.requests.is_full(now=_now()):
            del self._addresses[address]

    def _entry(self, address: str) -> _Address:
        if address not in self._addresses:
            if len(self._addresses) >= _MOST_REMEMBERED:
                self._addresses = {name: each for name, each in self._addresses.items() if each.open}
            self._addresses[address] = _Address(now=_now())
        return self._addresses[address]

    async def _refuse(self, receive: Receive, send: Send) -> None:
        await receive()
        if self._unanswered >= _MOST_UNANSWERED or not await self._is_gone(receive):
            with suppress(OSError):  # uvicorn's word for a page that is gone
                await send({"type": "websocket.close"})  # before it was accepted: 403

    async def _is_gone(self, receive: Receive) -> bool:
        """Wait a while. Whether the page did not."""
        self._unanswered += 1
        try:
            async with asyncio.timeout(_ANSWER_AFTER_S):
                await receive()  # nothing else can come before it is accepted
        except TimeoutError:
            return False
        else:
            return True
        finally:
            self._unanswered -= 1

    def _log(self, reason: str, address: str | None) -> None:
        if _now() >= self._logged_at + _LOG_EVERY_S:
            self._logged_at = _now()
            logger.warning(
                "Page sockets of %s are refused (%s, %d open in all). Said once a minute; /metrics counts them",
                address, reason, self._open,
            )  # fmt: skip


def _now() -> float:
    return asyncio.get_running_loop().time()


class SameOrigin:
    """Serves an application to pages of trusted origins alone; everybody else is answered with a 403."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        headers = {name: value.decode("latin1") for name, value in scope["headers"]}
        host, origin = headers.get(b"host", ""), headers.get(b"origin", "")
        serve = (
            self._application if is_trusted(origin, host=host, scheme=scope.get("scheme", "ws")) else WebsocketDenier()
        )
        return await serve(scope, receive, send)


def is_trusted(origin: str, *, host: str, scheme: str) -> bool:
    """Whether a page of this origin may open a socket at this host by this scheme (ws or wss; behind a proxy that says
    so with X-Forwarded-Proto, the browser's).

    The host must be one of ALLOWED_HOSTS: else a name of the attacker's that leads here would be its own origin.
    """
    page = _parts(origin)
    if page is None:
        return False
    secure = scheme in {"wss", "https"}
    if page == _parts(f"{'https' if secure else 'http'}://{host}"):
        return validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS)
    return any(_matches(page, trusted) for trusted in settings.CSRF_TRUSTED_ORIGINS)


def _parts(origin: str) -> Origin | None:
    """Scheme, name and port; None for what is no origin of a page ("null", a path, an address without a name)."""
    try:
        split = urlsplit(origin)
        port = split.port or _DEFAULT_PORTS.get(split.scheme)
    except ValueError:
        return None
    if not split.hostname or split.path or split.query or split.fragment:
        return None
    return split.scheme, split.hostname, port


def _matches(page: Origin, trusted: str) -> bool:
    """Whether an origin is this one, or of a name below it where the setting says `https://*.example.org`."""
    wildcard = "://*." in trusted
    expected = _parts(trusted.replace("://*.", "://", 1))
    if expected is None or not wildcard:
        return page == expected
    scheme, name, port = expected
    return (page[0], page[2]) == (scheme, port) and page[1].endswith(f".{name}")


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
            await self._leave(TOO_FAST, error.message)

    async def _leave(self, code: int, reason: str | None = None) -> None:
        if not self._is_over:
            self._is_over = True
            await self.close(code, reason)

    async def _end(self) -> None:
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)


# The consumer finds the person of the session by itself, in a thread of ours: see live.protocol.
application: Any = Admission(SameOrigin(CookieMiddleware(LiveConsumer.as_asgi())))
