"""Bounds what a request may carry, before anything of it is kept: Django itself reads every body to its
end."""

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from django.conf import settings

from jobs.waiting.asking import App, Message, Receive, Scope, Send, header

_FILE: Final = re.compile(r"/api/v1/worker/jobs/[0-9]+/files/[^/]+")
_DRAIN_S: Final = 3.0  # for a client that sends on: closed at once, it would see a reset and never our answer


class TooLargeError(Exception):
    """More came than was announced or allowed."""


class BoundedBodies:
    """Answers 413 to a body over the limit: by its Content-Length at once, else as soon as too much has
    come."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        limit = _limit(scope)
        announced = header(scope, "content-length")
        if announced.isdigit() and int(announced) > limit:
            await _refuse(receive, send, limit=limit)
            return
        try:
            await self._app(scope, _counted(receive, limit=limit), send)
        except TooLargeError:
            await _refuse(receive, send, limit=limit)


def _limit(scope: Scope) -> int:
    sizes: Mapping[str, Any] = settings.JOBFARM
    is_file = scope["method"] == "PUT" and _FILE.fullmatch(scope["path"])
    return int(sizes["FILE_BYTES"] if is_file else sizes["BODY_BYTES"])


def _counted(receive: Receive, *, limit: int) -> Receive:
    """`receive` that raises TooLargeError when more than `limit` bytes came.

    Bodies are read before any answer.
    """
    left = limit

    async def counted() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        if left < 0:
            raise TooLargeError
        return message

    return counted


async def _refuse(receive: Receive, send: Send, *, limit: int) -> None:
    told = {"error": "too_large", "message": f"The body is larger than {limit} bytes.", "limit": limit}
    body = json.dumps(told).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    try:
        async with asyncio.timeout(_DRAIN_S):
            while (message := await receive())["type"] == "http.request" and message.get("more_body"):
                pass
    except TimeoutError:
        pass
    await send({"type": "http.response.body", "body": b""})
