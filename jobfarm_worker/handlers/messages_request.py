"""A request of Anthropic's Messages API as one of `chat/completions`, for servers that have no `/messages`.

What has no counterpart there is left out, and a note in the answer says so. Only content whose absence changes what is
asked is refused by its name.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from jobfarm_worker.handlers.calls import content_of, turns_of, unsupported
from jobfarm_worker.handlers.chunks import as_object, objects

Fields = Mapping[str, Any]
Notes = list[str]

PASSED: Final = ("model", "max_tokens", "temperature", "top_p")
# What becomes something else; whatever has another name is left out (docs/front-door.md).
MAPPED: Final = (
    "system", "messages", "stop_sequences", "stream", "tools", "tool_choice", "output_config", "output_format",
)  # fmt: skip
_BILLING: Final = "x-anthropic-billing-header:"  # would keep a server from using what it has of the prompt
_PREFILL: Final = "The last message is the assistant's: the model server may begin a new one, and not continue it."
_CHOICES: Final = {"auto": "auto", "any": "required", "none": "none"}
_CHARACTERS: Final = 4  # of English text in a token
_PICTURE_TOKENS: Final = 1000


def chat_request(body: Fields) -> tuple[dict[str, Any], Notes]:
    """The body for `chat/completions`, and what of the request it does not say, a sentence each. Raises Failed, for
    good, with the name of what cannot be left out."""
    notes: Notes = []
    fields = {name: value for name, value in body.items() if value not in (None, [], {})}
    request: dict[str, Any] = {name: fields[name] for name in PASSED if name in fields}
    system = [
        each for each in _blocks(fields.get("system"), "system") if not str(each.get("text")).startswith(_BILLING)
    ]
    parts = _parts(system, "system", notes)
    request["messages"] = [{"role": "system", "content": content_of(parts)}] if parts else []
    request["messages"] += _messages(body.get("messages"), notes)
    if "stop_sequences" in fields:
        request["stop"] = fields["stop_sequences"]
    if fields.get("stream"):
        request["stream"] = True
    if request["messages"] and request["messages"][-1]["role"] == "assistant":
        notes.append(_PREFILL)
    request |= _functions(fields, notes) | _format(fields, notes)
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
            case {"type": "thinking" | "redacted_thinking"}:
                pass  # as models' templates do
            case dict(one):
                waiting.extend(one.values())
            case list(several):
                waiting.extend(several)
            case str(text):
                characters += len(text)
    return 1 + characters // _CHARACTERS + pictures * _PICTURE_TOKENS


def _note(notes: Notes, *names: str) -> None:
    notes += [f"Left out: {name}. The model server has chat/completions alone." for name in names]


def _messages(messages: Any, notes: Notes) -> list[dict[str, Any]]:
    if not isinstance(messages, list):
        raise unsupported("messages", "a list of messages")
    return turns_of(
        made for number, each in enumerate(messages) for made in _message(each, f"messages[{number}]", notes)
    )


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
    content = content_of(_parts(blocks, at, notes))
    more = {"content": content or None, "tool_calls": calls} if calls else {"content": content}
    return {"role": "assistant", **more}


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
            text = content_of([part for part in parts if part["type"] == "text"])
            pictures += [part for part in parts if part["type"] != "text"]
            if block.get("is_error"):
                text = f"Error: {text}" if text else "Error"
            results.append({"role": "tool", "tool_call_id": str(block.get("tool_use_id")), "content": text})
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
        if (make := PARTS.get(kind)) is not None:
            parts += make(block, at, notes)
        elif kind not in ELSEWHERE:
            _note(notes, f"content of the type {kind}")
    return parts


def _text(block: Fields, _at: str, _notes: Notes, *, field: str = "text") -> list[dict[str, Any]]:
    return [{"type": "text", "text": str(block.get(field) or "")}]


def _image(block: Fields, at: str, _notes: Notes) -> list[dict[str, Any]]:
    return [{"type": "image_url", "image_url": {"url": _address(block, at, {"base64", "url"})}}]


def _document(block: Fields, at: str, notes: Notes) -> list[dict[str, Any]]:
    source = as_object(block.get("source"))
    if source.get("type") == "text":
        return _text(source, at, notes, field="data")
    if source.get("type") == "content":
        return _parts(_blocks(source.get("content"), at), at, notes)
    file = {"file_data": _address(block, at, {"base64"}), "filename": str(block.get("title") or "document.pdf")}
    return [{"type": "file", "file": file}]


def _search_result(block: Fields, at: str, notes: Notes) -> list[dict[str, Any]]:
    return _text(block, at, notes, field="title") + _parts(_blocks(block.get("content"), at), at, notes)


PARTS: Final[Mapping[str, Callable[[Fields, str, Notes], list[dict[str, Any]]]]] = {
    "text": _text, "image": _image, "document": _document, "search_result": _search_result,
}  # fmt: skip
# Those of calls of tools have a place of their own; templates of models leave out what was thought.
ELSEWHERE: Final = ("tool_use", "tool_result", "thinking", "redacted_thinking")


def _address(block: Fields, at: str, known: set[str]) -> str:
    """Where a picture or a document is. Raises Failed for one that is kept elsewhere, or nowhere."""
    source = as_object(block.get("source"))
    kind = source.get("type")
    if kind not in known:
        raise unsupported(f"{at}.content.source", f"of the type {' or '.join(sorted(known))}")
    for name in ("url",) if kind == "url" else ("media_type", "data"):
        if not isinstance(source.get(name), str) or not source[name]:
            raise unsupported(f"{at}.content.source.{name}", "a text")
    return str(source["url"]) if kind == "url" else f"data:{source['media_type']};base64,{source['data']}"


def _functions(fields: Fields, notes: Notes) -> dict[str, Any]:
    """Functions and their choice; a choice among none is left out, since a server may refuse it."""
    tools = objects(fields.get("tools"))
    functions = [_function(tool) for tool in tools if tool.get("type") in (None, "custom")]
    _note(notes, *(f"the tool {tool['type']}" for tool in tools if tool.get("type") not in (None, "custom")))
    choice = fields.get("tool_choice")
    names = {each["function"]["name"] for each in functions}
    if isinstance(choice, dict) and choice.get("type") == "tool" and str(choice.get("name")) not in names:
        raise unsupported("tool_choice", f"there is no function {choice.get('name')!r} to choose")
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


def _format(fields: Fields, notes: Notes) -> dict[str, Any]:
    """The shape of the answer; how much effort it takes is the model's own affair."""
    known = as_object(fields.get("output_config"))
    _note(notes, *(f"output_config.{name}" for name in sorted(known.keys() - {"format"})))
    shape = known.get("format") or fields.get("output_format")  # its older name
    if not isinstance(shape, dict) or shape.get("type") != "json_schema":
        return {}
    schema = {"name": "answer", "schema": shape.get("schema") or {}, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}
