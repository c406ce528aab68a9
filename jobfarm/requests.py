"""Every HTTP request from outside: what its log lines are about, whose trace it is part of, how it is counted."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Final

from core.asgi import App, Message, Receive, Scope, Send, header
from jobfarm import access
from observing import fields, numbers, traces

_JOB: Final = re.compile(r"/(?:api/v1/(?:worker/)?)?jobs/([0-9]{1,19})(?:/|$)")
_MESSAGES: Final = re.compile(r"/v1/messages(?:/|$)")  # whose clients look for the id by another name
WAITS: Final = "waits"  # these last as long as nothing happens, so how long they take means nothing
# Which part of the site answers: what stands first fits first. Few, so that every one may be a time series.
_PARTS: Final = (
    (re.compile(r"/api/v1/worker/claim|/api/v1/jobs/(?:[0-9]{1,19}/)?events|/v1/(?!models).*"), WAITS),
    (re.compile(r"/api/v1/worker/.*"), "worker"),
    (re.compile(r"/api/webhooks/.*|/api/sandbox/.*|/clerk-users-webhook"), "webhooks"),
    (re.compile(r"/api/.*|/v1/.*"), "api"),
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
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        request_id = access.request_id(scope)
        answer = access.Answer()

        async def send_named(message: Message) -> None:
            answer.note(message)
            if message["type"] == "http.response.start":
                names = [access.REQUEST_ID.encode(), *([b"request-id"] if _MESSAGES.match(path) else [])]
                named = [(name, request_id.encode()) for name in names]
                message = {**message, "headers": [*message["headers"], *named]}
            await send(message)

        job = _JOB.match(path)
        about = fields.about(request_id=request_id, job_id=int(job[1]) if job else None)
        trace, counted = traces.carrying(header(scope, "traceparent")), _counted(_part(path), answer)
        try:
            with fields.noting() as noted, about, trace, counted, access.logged(scope, path, answer, noted):
                await self._app(scope, receive, send_named)
        except Exception:
            fields.note(request_id=request_id)  # what the server logs of it has it too
            raise


@contextmanager
def _counted(part: str, answer: access.Answer) -> Iterator[None]:
    """Count the request, by the status of its answer when it is over; 499 for a client that left before, 500 for an
    error that nobody caught."""
    took = numbers.REQUEST_SECONDS.labels(part).time() if part != WAITS else nullcontext()
    waiting = numbers.OPEN.labels("waiting requests").track_inprogress() if part == WAITS else nullcontext()
    status = access.BROKE
    try:
        with took, waiting:
            yield
        status = answer.status
    finally:
        numbers.REQUESTS.labels(part, str(status)).inc()


def _part(path: str) -> str:
    return next((part for pattern, part in _PARTS if pattern.fullmatch(path)), "pages")
