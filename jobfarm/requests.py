"""What every HTTP request from outside goes through before anything is kept: what its log lines are about, whose trace
it is part of, how it is counted; what it may carry, and how many of one address may be half sent (Django reads every
body to its end, each into memory or a file of its own). And the access log: a line for each request, and for the
opening and the closing of each socket, from INFO on.

A line names no query string and no token of an address: both may open something."""

import asyncio
import json
import logging
import re
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from django.conf import settings

from core import asgi
from core.asgi import App, Message, Receive, Scope, Send, header
from core.large_json import ANY, Cutting
from core.refusal import Refusal
from jobs.protocol.jobs import API
from live.addresses import network_of
from observing import fields, numbers, traces
from openai_api.domain import ADDRESS as OPENAI, PATHS, refused as openai_form

_JOB: Final = re.compile(r"/(?:api/v1/(?:worker/)?)?jobs/([0-9]{1,19})(?:/|$)")
_MESSAGES: Final = re.compile(r"/v1/messages(?:/|$)")  # whose clients look for the id by another name
WAITS: Final = "waits"  # these last as long as nothing happens, so how long they take means nothing
# Which part of the site answers: what stands first fits first. Few, so that every one may be a time series.
_PART: Final = re.compile(
    rf"(?P<{WAITS}>/api/v1/worker/claim|/api/v1/jobs/(?:[0-9]{{1,19}}/)?events|/v1/(?!models).*)"
    r"|(?P<worker>/api/v1/worker/.*)"
    r"|(?P<webhooks>/api/webhooks/.*|/api/sandbox/.*|/clerk-users-webhook)"
    r"|(?P<api>/api/.*|/v1/.*)"
    r"|(?P<admin>/admin/.*)"
    r"|(?P<static>/static/.*|/favicon\.ico)"
    r"|(?P<health>/health/.*|/metrics)"
)
log = logging.getLogger("jobfarm.access")
REQUEST_ID: Final = "x-request-id"
_REQUEST_ID: Final = REQUEST_ID.encode()
_PROXY_ID: Final = re.compile(r"[A-Za-z0-9._-]{8,64}")  # a proxy's, if it is one that may stand in a log line
LONGEST_PATH: Final = 300  # characters; whoever asks chooses them
LEFT: Final = 499  # as nginx says it: the client left before it was answered
BROKE: Final = 500
# Addresses that let in whoever has them (a test looks at all routes).
_SECRET: Final = re.compile(r"^(/(?:accounts/(?:link|join|email|password/reset)|jobs/shared|files)/)[^/]+")
NORMAL: Final = 1000
NO_CODE: Final = 1005  # RFC 6455: it was closed without one, or just gone
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


@dataclass(slots=True)
class Answer:
    status: int = LEFT
    size: int = 0


class Observed:
    """Serves HTTP by `app`, with all log fields that are known before. Its answers have an
    X-Request-ID: the caller's own, or a new one."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        own_id = request_id(scope)
        answer = Answer()

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer.status, value = message["status"], own_id.encode()
                more = [(b"request-id", value)] if _MESSAGES.match(path) else []
                message = {**message, "headers": [*message["headers"], (_REQUEST_ID, value), *more]}
            elif message["type"] == "http.response.body":
                answer.size += len(message.get("body", b""))
            await send(message)

        job = _JOB.match(path)
        about = fields.about(request_id=own_id, job_id=int(job[1]) if job else None)
        known = _PART.fullmatch(path)
        part = (known and known.lastgroup) or "pages"
        trace, counted = traces.carrying(header(scope, "traceparent")), _counted(part, answer)
        try:
            with fields.noting() as noted, about, trace, counted, logged(scope, path, answer, noted):
                await self._app(scope, receive, send_named)
        except Exception:
            fields.note(request_id=own_id)  # what the server logs of it has it too
            raise


@contextmanager
def _counted(part: str, answer: Answer) -> Iterator[None]:
    """Count the request, by the status of its answer when it is over; 499 for a client that left before, 500 for an
    error that nobody caught."""
    took = numbers.REQUEST_SECONDS.labels(part).time() if part != WAITS else nullcontext()
    waiting = numbers.OPEN.labels("waiting requests").track_inprogress() if part == WAITS else nullcontext()
    status = BROKE
    try:
        with took, waiting:
            yield
        status = answer.status
    finally:
        numbers.REQUESTS.labels(part, str(status)).inc()


def request_id(scope: Scope) -> str:
    sent = header(scope, REQUEST_ID)
    return sent if _PROXY_ID.fullmatch(sent) else uuid.uuid4().hex


@contextmanager
def logged(scope: Scope, path: str, answer: Answer, noted: Mapping[str, Any]) -> Iterator[None]:
    """Write the line of the request that the block serves, when it is over. `noted`: who called, once that is known."""
    if not log.isEnabledFor(logging.INFO):
        yield
        return
    since = time.perf_counter()
    try:
        yield
    except BaseException:
        answer.status = BROKE
        raise
    finally:
        line = {"method": scope["method"], "path": shown(path), "status": answer.status}
        with fields.about(**noted):
            _write(scope, **line, ms=_ms(since), bytes=answer.size)


class LoggedSocket:
    """Serves WebSockets by `app`, each under its request id, and logs when it is opened and closed."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with fields.about(request_id=request_id(scope)), fields.noting() as noted:
            if log.isEnabledFor(logging.INFO):
                await self._logged(scope, receive, send, noted)
            else:
                await self._app(scope, receive, send)

    async def _logged(self, scope: Scope, receive: Receive, send: Send, noted: Mapping[str, Any]) -> None:
        since, path = time.perf_counter(), shown(scope["path"])
        codes: list[int] = []  # whichever side closes first says why

        async def receive_noted() -> Message:
            message = await receive()
            if message["type"] == "websocket.disconnect":
                codes.append(message.get("code") or NO_CODE)
            return message

        async def send_noted(message: Message) -> None:
            if message["type"] == "websocket.accept":
                _write(scope, method="OPEN", path=path)
            elif message["type"] == "websocket.close":
                codes.append(message.get("code") or NORMAL)
            await send(message)

        try:
            await self._app(scope, receive_noted, send_noted)
        finally:
            with fields.about(**noted):
                _write(scope, method="CLOSE", path=path, code=next(iter(codes), NO_CODE), ms=_ms(since))


def shown(path: str) -> str:
    """A path as it may stand in a line: without tokens, line ends and other surprises."""
    return quote(_SECRET.sub(r"\1-", path)[:LONGEST_PATH], safe="/:@!$&'()*+,;=~")


def _write(scope: Scope, **parts: Any) -> None:
    """The line, with each of its parts as a field of its own in JSON."""
    client = (scope.get("client") or ("-",))[0]
    units = {"ms": " ms", "bytes": " bytes"}
    words = " ".join(f"{value}{units.get(name, '')}" for name, value in parts.items())
    log.info("%s from %s", words, client, extra={**parts, "client": client})


def _ms(since: float) -> float:
    return round((time.perf_counter() - since) * 1000, 1)


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
