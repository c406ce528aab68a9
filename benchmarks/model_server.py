"""A model server that only says when it says it: each token of a chat is the moment at which it was sent."""

import asyncio
import json
import time
from typing import Any, Final

from benchmarks.options import scaled

TOKENS: Final = scaled(40, least=5)
GAP_S: Final = 0.25  # four tokens a second: a hundred streams are 400
MODEL: Final = "clock"
_MODELS: Final = {"object": "list", "data": [{"id": MODEL, "object": "model"}]}
_END: Final = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Serve one request, as ASGI."""
    if scope["type"] != "http":
        raise NotImplementedError(scope["type"])
    while (await receive()).get("more_body"):
        pass
    if scope["path"] == "/v1/models":
        await _start(send, b"application/json")
        await send({"type": "http.response.body", "body": json.dumps(_MODELS).encode()})
        return
    await _start(send, b"text/event-stream")
    for _ in range(TOKENS):
        delta = {"content": f"{time.monotonic_ns()} "}
        await _event(send, json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}))
        await asyncio.sleep(GAP_S)
    await _event(send, json.dumps(_END))
    await _event(send, "[DONE]")
    await send({"type": "http.response.body", "body": b""})


async def _start(send: Any, content_type: bytes) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", content_type)]})


async def _event(send: Any, data: str) -> None:
    await send({"type": "http.response.body", "body": f"data: {data}\n\n".encode(), "more_body": True})
