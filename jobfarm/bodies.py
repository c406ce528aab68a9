"""Bounds what requests may carry, and how many of one address may be half sent, before anything is kept: Django reads
every body to its end, each into memory or a file of its own."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from django.conf import settings

from core import asgi
from core.asgi import App, Message, Receive, Scope, Send, header
from core.large_json import ANY, Cutting
from core.refusal import Refusal
from jobs.protocol.jobs import API
from live.addresses import network_of
from openai_api.domain import ADDRESS as OPENAI, PATHS, refused as openai_form

# Where files come in, alone or in a form.
_FILE: Final = re.compile(r"PUT /api/v1/worker/jobs/[0-9]+/files/[^/]+|POST /api/v1/files|POST /jobs/new/")
# Where bodies of JSON come in that may be as large: what is over PAYLOAD_BYTES of the value at this place is cut out.
_PLACES: Final = {
    "one": ("payload",), "many": ("jobs", ANY, "payload"),
    "end": ("result",), "ends": ("finished", ANY, "result"),
}  # fmt: skip
_LARGE: Final = re.compile(
    rf"{API}/(?:(?P<one>jobs|worker/jobs/[0-9]+/submit)|(?P<many>jobs/bulk)"
    r"|(?P<end>worker/jobs/[0-9]+/finish)|(?P<ends>worker/finish))"
)
_CALL: Final = re.compile(f"POST {OPENAI}({'|'.join(PATHS)})")
_OPENAI_FILE: Final = f"POST {OPENAI}files"
_FORM_BYTES: Final = 10_000  # of its other fields
# A body may be late by this much of what the least rate brings: 50 MB have 100 minutes, one byte has half of one.
_GRACE_S: Final = 30.0
_LEAST_RATE: Final = 8 << 10  # bytes a second
# A body that is there so soon after its head makes no request half sent: most come with it.
_AT_ONCE_S: Final = 0.25
_RETRY_AFTER_S: Final = 5


class TooLarge(Refusal, code="too_large", http_status=413):
    """The body is larger than {limit} bytes."""


class TooSlow(Refusal, code="too_slow", http_status=408):
    """The body was not sent within {seconds:.0f} s."""


class TooMany(Refusal, code="too_many", http_status=429):
    """{limit} requests of your address are half sent: finish those, or come again."""


_NOT_READ: Final = (TooLarge, TooSlow, TooMany)


class BoundedBodies:
    """Answers 413 to a body over the limit (by its Content-Length at once, else as soon as too much has come), 429 to
    one too many that is `half_sent`, 408 to one that does not come."""

    def __init__(self, app: App, *, half_sent: Counter[str]) -> None:
        self._app = app
        self._half_sent = half_sent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        limit = _limit(scope)
        announced = header(scope, "content-length")
        if announced.isdigit() and int(announced) > limit:
            await _refuse(scope, receive, send, TooLarge(limit=limit))
            return
        body = _Body(receive, limit=limit, half_sent=self._half_sent, scope=scope)
        try:
            await self._app(scope, body.receive, send)
        except _NOT_READ as error:
            await _refuse(scope, receive, send, error)
        finally:
            body.close()


def cutting(path: str) -> Cutting | None:
    """Where a body sent to this path is cut; None: it is read whole."""
    if (match := _LARGE.fullmatch(path)) is None:
        return None
    sizes: Mapping[str, Any] = settings.JOBFARM
    place = _PLACES[match.lastgroup or ""]
    subject = str(place[-1])
    over, most = sizes["PAYLOAD_BYTES"], sizes["FILE_BYTES"]
    return Cutting(at=place, over=over, most=most, subject=subject, keeps_whole=subject == "result")


def _limit(scope: Scope) -> int:
    sizes: Mapping[str, Any] = settings.JOBFARM
    request = f"{scope['method']} {scope['path']}"
    if scope["method"] == "POST" and _LARGE.fullmatch(scope["path"]):
        return int(sizes["FILE_BYTES"]) + _FORM_BYTES
    if request == _OPENAI_FILE:
        return int(settings.OPENAI["FILE_BYTES"]) + _FORM_BYTES
    return int(sizes["FILE_BYTES"] if _FILE.fullmatch(request) or _CALL.fullmatch(request) else sizes["BODY_BYTES"])


class _Body:
    """The body of one request as it comes. While it is half sent it counts for its address."""

    def __init__(self, receive: Receive, *, limit: int, half_sent: Counter[str], scope: Scope) -> None:
        self._receive = receive
        self._limit = limit
        self._half_sent = half_sent
        self._scope = scope
        self._size = 0
        self._began_s = asyncio.get_running_loop().time()
        self._is_read = False
        self._is_counted = False

    async def receive(self) -> Message:
        """The next message. Raises TooLarge, TooMany, TooSlow; bodies are read before any answer."""
        if self._is_read:  # what comes now is that the client goes
            return await self._receive()
        message = await self._next_piece()
        self._size += len(message.get("body", b""))
        if self._size > self._limit:
            raise TooLarge(limit=self._limit)
        self._is_read = not message.get("more_body")
        if self._is_read:
            self.close()
        return message

    def close(self) -> None:
        """The request is over, whether its body came or not."""
        self._count(is_half_sent=False)

    async def _next_piece(self) -> Message:
        try:
            async with asyncio.timeout_at(self._began_s + _AT_ONCE_S):
                return await self._receive()
        except TimeoutError:
            self._count(is_half_sent=True)
            return await self._in_time()

    async def _in_time(self) -> Message:
        lasts_s = _GRACE_S + self._size / _LEAST_RATE
        try:
            async with asyncio.timeout_at(self._began_s + lasts_s):
                return await self._receive()
        except TimeoutError:
            raise TooSlow(seconds=lasts_s) from None

    def _count(self, *, is_half_sent: bool) -> None:
        if is_half_sent == self._is_counted or (address := network_of(self._scope)) is None:
            return
        most = settings.JOBFARM["HALF_SENT_PER_ADDRESS"]
        if is_half_sent and self._half_sent[address] >= most:
            raise TooMany(limit=most, retry_after=_RETRY_AFTER_S)
        self._is_counted = is_half_sent
        self._half_sent[address] += 1 if is_half_sent else -1
        if not self._half_sent[address]:
            del self._half_sent[address]  # addresses are many


async def _refuse(scope: Scope, receive: Receive, send: Send, refusal: Refusal) -> None:
    status, body = refusal.http_status, refusal.body
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    if path.startswith(OPENAI):
        status, body = openai_form(body, status=status, path=path.removeprefix(OPENAI))
    encoded = json.dumps(body).encode()
    await asgi.answer(receive, send, status=status, headers=refusal.headers, body=encoded, is_read=False)
