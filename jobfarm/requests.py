"""Every HTTP request from outside: what its log lines are about, whose trace it is part of, how it is counted."""

import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from core.asgi import App, Message, Receive, Scope, Send, header
from observing import fields, numbers, traces

REQUEST_ID: Final = "x-request-id"
_PROXY_ID: Final = re.compile(r"[A-Za-z0-9._-]{8,64}")  # a proxy's, if it is one that may stand in a log line
_JOB: Final = re.compile(r"/(?:api/v1/(?:worker/)?)?jobs/([0-9]{1,19})(?:/|$)")
WAITS: Final = "waits"  # these last as long as nothing happens, so how long they take means nothing
# Which part of the site answers: what stands first fits first. Few, so that every one may be a time series.
_PARTS: Final = (
    (re.compile(r"/api/v1/worker/claim|/api/v1/jobs/[0-9]{1,19}/events"), WAITS),
    (re.compile(r"/api/v1/worker/.*"), "worker"),
    (re.compile(r"/api/webhooks/.*|/api/sandbox/.*|/clerk-users-webhook"), "webhooks"),
    (re.compile(r"/api/.*"), "api"),
    (re.compile(r"/admin/.*"), "admin"),
    (re.compile(r"/static/.*|/favicon\.ico"), "static"),
    (re.compile(r"/health/.*|/metrics"), "health"),
)


class Observed:
    """Serves HTTP by `app`, with all log fields that are known before. Its answers have an
    X-Request-ID: the caller's own, or a new one."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        request_id = _request_id(scope)
        answered: list[int] = []

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                answered.append(message["status"])
                message = {
                    **message,
                    "headers": [*message["headers"], (REQUEST_ID.encode(), request_id.encode())],
                }
            await send(message)

        job = _JOB.match(path)
        about = fields.about(request_id=request_id, job_id=int(job[1]) if job else None)
        with about, traces.carrying(header(scope, "traceparent")), _counted(_part(path), answered):
            await self._app(scope, receive, answer)


@contextmanager
def _counted(part: str, answered: list[int]) -> Iterator[None]:
    """Count the request, by the status in `answered` when it is over; 499 for a client that left before, 500 for an
    error that nobody caught."""
    since = time.perf_counter()
    waiting = numbers.OPEN.labels("waiting requests") if part == WAITS else None
    if waiting is not None:
        waiting.inc()
    status = 500
    try:
        yield
        status = answered[0] if answered else 499
    finally:
        numbers.REQUESTS.labels(part, str(status)).inc()
        if waiting is not None:
            waiting.dec()
        else:
            numbers.REQUEST_SECONDS.labels(part).observe(time.perf_counter() - since)


def _part(path: str) -> str:
    return next((part for pattern, part in _PARTS if pattern.fullmatch(path)), "pages")


def _request_id(scope: Scope) -> str:
    request_id = header(scope, REQUEST_ID)
    return request_id if _PROXY_ID.fullmatch(request_id) else uuid.uuid4().hex
