"""Anthropic's Messages API: its errors, and its events where they are not those of a worker."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from observing import fields

PATH: Final = "messages"
PATHS: Final = (PATH, "messages/count_tokens")
PING: Final = {"type": "ping"}
END: Final = "message_stop"  # the last event of a message
# What of a request's headers says what is asked for, and reaches servers that have these calls.
HEADERS: Final = ("anthropic-version", "anthropic-beta")
# The types of errors, by status; what is not here is the caller's fault below 500 and the server's above.
_TYPES: Final = {
    401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error",
    413: "request_too_large", 429: "rate_limit_error", 503: "overloaded_error", 504: "timeout_error",
    529: "overloaded_error",
}  # fmt: skip

# Of a block's fields, those that come in deltas: their type, and the field that they have it in.
_DELTAS: Final = (
    ("text", "text_delta", "text"),
    ("thinking", "thinking_delta", "thinking"),
    ("signature", "signature_delta", "signature"),
    ("input", "input_json_delta", "partial_json"),
)


def is_at(path: str) -> bool:
    """Whether this path, below /v1/, is one of these calls."""
    return path.partition("/")[0] == PATH


def error(body: Mapping[str, Any], *, status: int) -> dict[str, Any]:
    """An error in Anthropic's form, with the id of the request that is served; what a model server says in that form
    stays as it is."""
    fault = body.get("error")
    if body.get("type") != "error" or not isinstance(fault, Mapping):
        usual = "invalid_request_error" if status < 500 else "api_error"
        message = (
            fault.get("message") if isinstance(fault, Mapping) else fault or body.get("message") or body.get("detail")
        )
        fault = {"type": _TYPES.get(status, usual), "message": str(message or "")}
    return {"type": "error", "error": fault, "request_id": fields.current().get("request_id", "")}


def model(name: str, created: datetime) -> dict[str, Any]:
    """A model as a list of them has it."""
    return {"type": "model", "id": name, "display_name": name, "created_at": created.isoformat()}


def events(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The events that make a whole message, each block in one piece. It stands in a delta, since clients take no text
    from where a block starts."""
    begun = {**message, "content": [], "stop_reason": None, "stop_sequence": None}
    yield {"type": "message_start", "message": begun}
    content = message.get("content")
    blocks = [each for each in content if isinstance(each, Mapping)] if isinstance(content, list) else []
    for index, block in enumerate(blocks):
        pieces = [*_pieces(block)]
        empty = {name: type(block[name])() for name, _, _ in pieces}
        yield {"type": "content_block_start", "index": index, "content_block": {**block, **empty}}
        for name, kind, field in pieces:
            piece = block[name] if isinstance(block[name], str) else json.dumps(block[name])
            yield {"type": "content_block_delta", "index": index, "delta": {"type": kind, field: piece}}
        yield {"type": "content_block_stop", "index": index}
    delta = {name: message.get(name) for name in ("stop_reason", "stop_sequence")}
    yield {"type": "message_delta", "delta": delta, "usage": message.get("usage") or {}}
    yield {"type": END}


def _pieces(block: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """What of a block comes in deltas: its field, their type, and the field of theirs."""
    return (each for each in _DELTAS if block.get(each[0]) and isinstance(block[each[0]], str | dict))


def piece_text(event: Mapping[str, Any]) -> str:
    """What an event adds to the text that people read: pieces, and which tools are called."""
    delta, block = event.get("delta"), event.get("content_block")
    if isinstance(block, Mapping) and block.get("type") == "tool_use":
        return f"{block.get('name')} "
    pieces = [delta.get(name) for name in ("text", "thinking", "partial_json")] if isinstance(delta, Mapping) else []
    return "".join(each for each in pieces if isinstance(each, str))


def usage(event: Mapping[str, Any], known: Mapping[str, Any]) -> Mapping[str, Any]:
    """What an event counts, added to what those before it did: the first one knows the prompt, the last the answer."""
    message = event.get("message")
    counted = (message if isinstance(message, Mapping) else event).get("usage")
    if not isinstance(counted, Mapping):
        return known
    return {**known, **{name: value for name, value in counted.items() if value is not None}}
