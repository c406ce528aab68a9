"""A small, faithful and slow server of OpenAI's API: it sends what a test wrote down, when the test lets it."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.policy import HTTP
from typing import Any

from tests.worker.unit.outside import Door

Step = bytes | threading.Event  # a piece of the body as it is cut, or what the server waits for before the next
SSE = {"content-type": "text/event-stream"}
JSON = {"content-type": "application/json"}
MAY_LACK = {"responses", "messages", "messages/count_tokens"}


@dataclass
class Script:
    """One answer. `is_cut`: the connection breaks at its end."""

    steps: Sequence[Step]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: SSE)
    is_cut: bool = False


class ModelServer:
    """Answers each request with the next of its scripts, and remembers what it was asked."""

    def __init__(self, *models: str) -> None:
        self.models = list(models)
        self.scripts: list[Script] = []
        self.answer: Callable[[dict[str, Any]], Script] = lambda _: self.scripts.pop(0)
        self.requests: list[dict[str, Any]] = []
        self.url = ""
        self.has: set[str] = set()  # which addresses, of those that not all servers have
        self.beside: dict[str, str] = {}  # what stands at other addresses
        self.headers: list[dict[str, str]] = []
        self.refused: list[str] = []
        self.to_empty = refusal(400, "No.")  # how it answers an empty call at an address that it has
        self.to_unknown = refusal(404, "No.")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request."""
        pieces: list[bytes] = []
        while (message := await receive()).get("body") or message.get("more_body"):
            pieces.append(message["body"])
            if not message.get("more_body"):
                break
        body = b"".join(pieces)
        if scope["path"] == "/v1/models":
            listed = {"object": "list", "data": [{"id": name, "object": "model"} for name in self.models]}
            await self._send(send, Script([json.dumps(listed).encode()], headers=JSON))
            return
        if scope["path"] in self.beside:
            await self._send(send, Script([self.beside[scope["path"]].encode()], headers=JSON))
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        fields = _fields(headers.get("content-type", ""), body)
        path = scope["path"].removeprefix("/v1/")
        if path in MAY_LACK and not (path in self.has and fields):
            self.refused.append(path)
            await self._send(send, self.to_empty if path in self.has else self.to_unknown)
            return
        self.headers.append(headers)
        self.requests.append({"path": scope["path"], **fields})
        await self._send(send, self.answer(self.requests[-1]))

    async def _send(self, send: Any, script: Script) -> None:
        headers = [(name.encode(), value.encode()) for name, value in script.headers.items()]
        await send({"type": "http.response.start", "status": script.status, "headers": headers})
        for step in script.steps:
            if isinstance(step, bytes):
                await send({"type": "http.response.body", "body": step, "more_body": True})
            else:
                await _until_set(step)
        if not script.is_cut:
            await send({"type": "http.response.body", "body": b""})


def _fields(content_type: str, body: bytes) -> dict[str, Any]:
    """The JSON of a body; of a form its fields, a file as its name and bytes."""
    if not content_type.startswith("multipart/form-data"):
        fields: dict[str, Any] = json.loads(body)
        return fields
    parts = message_from_bytes(f"content-type: {content_type}\r\n\r\n".encode() + body, policy=HTTP)
    fields = {}
    for part in parts.iter_parts():
        content: Any = part.get_payload(decode=True)
        name = str(part.get_param("name", header="content-disposition"))
        if filename := part.get_filename():
            fields[name] = (filename, content)
        else:
            fields.setdefault(name, []).append(content.decode())
    return fields


async def _until_set(event: threading.Event) -> None:
    async with asyncio.timeout(60):
        while not event.is_set():  # noqa: ASYNC110 (set by another thread)
            await asyncio.sleep(0.005)


@contextmanager
def serving(*models: str) -> Iterator[ModelServer]:
    """A model server with these models, which runs inside this block."""
    door, model = Door(), ModelServer(*models)
    with door.open():
        door.app, model.url = model, f"{door.url}/v1"
        yield model


def chunk(*, model: str = "tiny", **fields: Any) -> bytes:
    """One event of a chat's stream."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model}
    return f"data: {json.dumps({**head, **fields})}\n\n".encode()


def delta(*, finish: str | None = None, **fields: Any) -> bytes:
    """One event with a delta of the first choice."""
    return chunk(choices=[{"index": 0, "delta": fields, "finish_reason": finish}])


USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
END = (delta(finish="stop"), chunk(choices=[], usage=USAGE), b"data: [DONE]\n\n")


def streamed(*words: str) -> Script:
    """A chat's answer in these words, with its usage."""
    return Script([delta(role="assistant", content=""), *(delta(content=word) for word in words), *END])


def whole(**fields: Any) -> Script:
    """An answer in one piece."""
    return Script([json.dumps(fields).encode()], headers=JSON)


def completion(text: str) -> dict[str, Any]:
    """A chat's whole answer."""
    message = {"role": "assistant", "content": text}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "tiny"}
    return {**head, "choices": choices, "usage": USAGE}


def refusal(status: int, message: str = "Busy.", code: str | None = None, **headers: str) -> Script:
    """An error in OpenAI's form."""
    error = {"message": message, "type": "invalid_request_error", "param": "messages", "code": code}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Script([json.dumps({"error": error}).encode()], status=status, headers={**JSON, **named})


LOOK = {"index": 0, "id": "c", "type": "function", "function": {"name": "look", "arguments": '{"at": "sea"}'}}


def by_request(request: dict[str, Any]) -> Script:
    """The answer of a model to which many calls come: it looks where it may and has not, and writes JSON where it has
    to. Of "Count." it begins a stream that does not end."""
    if request["path"] == "/v1/embeddings":
        data = [{"object": "embedding", "index": n, "embedding": [n, 0.5]} for n, _ in enumerate(request["input"])]
        return whole(object="list", model="tiny", data=data, usage=USAGE)
    if request["messages"] == [{"role": "user", "content": "Count."}]:
        return Script([delta(content="One"), threading.Event()])
    tools = [tool["function"]["name"] for tool in request.get("tools", [])]
    if "response_format" in request or "json" in tools:
        return whole(**completion('{"name": "Eddystone", "feet": 161}'))
    if tools and request["messages"][-1]["role"] != "tool":
        end = delta(tool_calls=[LOOK]), delta(finish="tool_calls"), *END[1:]
        return Script(end) if "stream" in request else whole(**_looking())
    return streamed("Hel", "lo.") if "stream" in request else whole(**completion("Hello."))


def _looking() -> dict[str, Any]:
    chat = completion("")
    chat["choices"][0] |= {"message": {"role": "assistant", "tool_calls": [LOOK]}, "finish_reason": "tool_calls"}
    return chat
