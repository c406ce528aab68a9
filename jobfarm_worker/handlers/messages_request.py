"""A request of Anthropic's Messages API as one of `chat/completions`, for servers that have no `/messages`.

What has no counterpart there is left out, and a note in the answer says so. Only content whose absence changes what is
asked is refused by its name. The tables below are what docs/front-door.md lists.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from jobfarm_worker.handlers.chunks import objects
from jobfarm_worker.handlers.responses_request import unsupported

Fields = Mapping[str, Any]
Notes = list[str]

PASSED: Final = ("model", "max_tokens", "temperature", "top_p")
# What becomes something else, and what that is.
MAPPED: Final = {
    "system": "the first message",
    "messages": "`messages`; a `system` among them is the user's, turns of the user that follow each other are one",
    "stop_sequences": "`stop`",
    "stream": "`stream`, with `stream_options.include_usage`",
    "tools": "functions",
    "tool_choice": "`tool_choice`, `parallel_tool_calls`",
    "output_config": "`format` is `response_format`; the rest is left out",
}
# Known by name, so that the page says it; whatever has another name is left out just so.
LEFT_OUT: Final = (
    "cache_control", "container", "context_management", "diagnostics", "inference_geo", "mcp_servers", "metadata",
    "service_tier", "speed", "thinking", "top_k",
)  # fmt: skip
BLOCKS: Final = {
    "text": "the text of a message",
    "image": "`image_url`; one in a `tool_result` stands in the message of the user behind it",
    "document": "a `file`, or a text; refused where its source is a `url` or a `file`",
    "tool_use": "`tool_calls`",
    "tool_result": "a message of the role `tool`",
    "thinking": "left out, as models' templates do",
    "redacted_thinking": "left out, as models' templates do",
}
_CHOICES: Final = {"auto": "auto", "any": "required", "none": "none"}
_CHARACTERS: Final = 4  # of English text in a token
_PICTURE_TOKENS: Final = 1000


def chat_request(body: Fields) -> tuple[dict[str, Any], Notes]:
    """The body for `chat/completions`, and what of the request it does not say, a sentence each. Raises Failed, for
    good, with the name of what cannot be left out."""
    notes: Notes = []
    fields = {name: value for name, value in body.items() if value not in (None, [], {})}
    request: dict[str, Any] = {name: fields[name] for name in PASSED if name in fields}
    request["messages"] = [*_system(fields.get("system"), notes), *_messages(body.get("messages"), notes)]
    if "stop_sequences" in fields:
        request["stop"] = fields["stop_sequences"]
    if fields.get("stream"):
        request["stream"] = True
    request |= _functions(fields, notes) | _format(fields.get("output_config"), notes)
    _note(notes, *sorted(fields.keys() - {*PASSED, *MAPPED}))
    return request, [*dict.fromkeys(notes)]


def estimated(body: Fields) -> int:
    """How many tokens this request has, of a server that does not count them: by the length of its texts."""
    characters, pictures = 0, 0
    waiting: list[Any] = [body.get(name) for name in ("system", "messages", "tools")]
    while waiting:
        match waiting.pop():
            case {"type": "base64"}:
                pictures += 1
            case dict(one):
                waiting.extend(one.values())
            case list(several):
                waiting.extend(several)
            case str(text):
                characters += len(text)
    return 1 + characters // _CHARACTERS + pictures * _PICTURE_TOKENS


def _note(notes: Notes, *names: str) -> None:
    notes += [f"Left out: {name}. The model server has chat/completions alone." for name in names]


def _system(system: Any, notes: Notes) -> list[dict[str, Any]]:
    parts = _parts(_blocks(system, "system"), "system", notes)
    return [{"role": "system", "content": _content(parts)}] if parts else []


def _messages(messages: Any, notes: Notes) -> list[dict[str, Any]]:
    if not isinstance(messages, list):
        raise unsupported("messages", "a list of messages")
    turns: list[dict[str, Any]] = []
    for number, each in enumerate(messages):
        for made in _message(each, f"messages[{number}]", notes):
            # Many templates know no two turns of the user, and a system in the first place alone.
            if turns and made["role"] == turns[-1]["role"] == "user":
                turns[-1]["content"] += made["content"]
            else:
                turns.append(made)
    return [{**turn, "content": _content(turn["content"])} if turn["role"] == "user" else turn for turn in turns]


def _message(message: Any, at: str, notes: Notes) -> list[dict[str, Any]]:
    """What a turn becomes; the content of a user's are parts still."""
    role = message.get("role") if isinstance(message, dict) else None
    if role not in ("user", "assistant", "system"):
        raise unsupported(f"{at}.role", "user or assistant")
    blocks = _blocks(message.get("content"), at)
    if role == "assistant":
        return [_assistant(blocks, at, notes)]
    results, pictures = _results(blocks, at, notes)
    parts = [*pictures, *_parts(blocks, at, notes)]
    return results + ([{"role": "user", "content": parts}] if parts or not results else [])


def _assistant(blocks: Iterable[Fields], at: str, notes: Notes) -> dict[str, Any]:
    calls = [_call(block) for block in blocks if block.get("type") == "tool_use"]
    content = _content(_parts(blocks, at, notes))
    return {"role": "assistant", "content": content or None, "tool_calls": calls} if calls else {
        "role": "assistant", "content": content,
    }  # fmt: skip


def _call(block: Fields) -> dict[str, Any]:
    function = {"name": str(block.get("name")), "arguments": json.dumps(block.get("input") or {})}
    return {"id": str(block.get("id")), "type": "function", "function": function}


def _results(blocks: Iterable[Fields], at: str, notes: Notes) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What tools gave, which a chat has right behind their calls, and the pictures in it, for which it has no place
    there."""
    results: list[dict[str, Any]] = []
    pictures: list[dict[str, Any]] = []
    for block in blocks:
        if block.get("type") == "tool_result":
            parts = _parts(_blocks(block.get("content"), at), at, notes)
            texts = [part for part in parts if part["type"] == "text"]
            pictures += [part for part in parts if part["type"] != "text"]
            results.append({"role": "tool", "tool_call_id": str(block.get("tool_use_id")), "content": _content(texts)})
    return results, pictures


def _blocks(content: Any, at: str) -> list[dict[str, Any]]:
    """Content as a list of blocks: a text is one."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    if content is not None and not isinstance(content, list):
        raise unsupported(f"{at}.content", "a text, or a list of blocks")
    return objects(content)


def _parts(blocks: Iterable[Fields], at: str, notes: Notes) -> list[dict[str, Any]]:
    """These blocks as parts of a chat's message, without those that have a place of their own."""
    parts: list[dict[str, Any]] = []
    for block in blocks:
        kind = str(block.get("type"))
        if (make := _PARTS.get(kind)) is not None:
            parts.append(make(block, at))
        elif kind not in BLOCKS:
            _note(notes, f"content of the type {kind}")
    return parts


def _text(block: Fields, _at: str) -> dict[str, Any]:
    return {"type": "text", "text": str(block.get("text") or "")}


def _image(block: Fields, at: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": _address(block, at, {"base64", "url"})}}


def _document(block: Fields, at: str) -> dict[str, Any]:
    source = block["source"] if isinstance(block.get("source"), dict) else {}
    if source.get("type") == "text":
        return {"type": "text", "text": str(source.get("data") or "")}
    if source.get("type") == "content":
        return {"type": "text", "text": _content(_parts(_blocks(source.get("content"), at), at, []))}
    file = {"file_data": _address(block, at, {"base64"}), "filename": str(block.get("title") or "document.pdf")}
    return {"type": "file", "file": file}


_PARTS: Final[Mapping[str, Callable[[Fields, str], dict[str, Any]]]] = {
    "text": _text, "image": _image, "document": _document,
}  # fmt: skip


def _address(block: Fields, at: str, known: set[str]) -> str:
    """Where a picture or a document is. Raises Failed for one that is kept elsewhere."""
    source = block["source"] if isinstance(block.get("source"), dict) else {}
    kind = source.get("type")
    if kind not in known:
        raise unsupported(f"{at}.content.source", f"of the type {' or '.join(sorted(known))}")
    return str(source.get("url")) if kind == "url" else f"data:{source.get('media_type')};base64,{source.get('data')}"


def _content(parts: list[dict[str, Any]]) -> Any:
    """The content of a chat's message: a text where nothing else is in it, which every model's template knows."""
    if any(part["type"] != "text" for part in parts):
        return parts
    return "\n\n".join(part["text"] for part in parts)


def _functions(fields: Fields, notes: Notes) -> dict[str, Any]:
    """Functions and their choice; a choice among none is left out, since a server may refuse it."""
    functions: list[dict[str, Any]] = []
    for tool in objects(fields.get("tools")):
        if tool.get("type") in (None, "custom"):
            functions.append(_function(tool))
        else:
            _note(notes, f"the tool {tool['type']}")
    choice = fields.get("tool_choice")
    if not functions:
        return {}
    return {"tools": functions, **(_tool_choice(choice) if isinstance(choice, dict) else {})}


def _function(tool: Fields) -> dict[str, Any]:
    description = {"description": tool["description"]} if tool.get("description") else {}
    parameters = tool.get("input_schema") or {"type": "object", "properties": {}}
    return {"type": "function", "function": {"name": str(tool.get("name")), **description, "parameters": parameters}}


def _tool_choice(choice: Fields) -> dict[str, Any]:
    parallel = {"parallel_tool_calls": False} if choice.get("disable_parallel_tool_use") else {}
    if choice.get("type") == "tool":
        return {"tool_choice": {"type": "function", "function": {"name": str(choice.get("name"))}}, **parallel}
    named = _CHOICES.get(str(choice.get("type")))
    return {**({"tool_choice": named} if named else {}), **parallel}


def _format(config: Any, notes: Notes) -> dict[str, Any]:
    """The shape of the answer; how much effort it takes is the model's own affair."""
    known = config if isinstance(config, dict) else {}
    _note(notes, *(f"output_config.{name}" for name in sorted(known.keys() - {"format"})))
    shape = known.get("format")
    if not isinstance(shape, dict) or shape.get("type") != "json_schema":
        return {}
    schema = {"name": "answer", "schema": shape.get("schema") or {}, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}
