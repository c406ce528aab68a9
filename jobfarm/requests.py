"""Every HTTP request from outside: what its log lines are about, whose trace it is part of, how it is counted; and the
access log: a line for each request, and for the opening and the closing of each socket, from INFO on.

A line names no query string and no token of an address: both may open something."""

import logging
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from core.asgi import App, Message, Receive, Scope, Send, header
from observing import fields, numbers, traces

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
