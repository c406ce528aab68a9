"""A request of the Responses API as one of `chat/completions`, for servers that have that alone (docs/adr/0084).

What has no counterpart there and changes the answer is refused by its name. What only asks for more is left out, and a
note in the answer says so.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from jobfarm_worker.handlers.calls import turns_of, unsupported
from jobfarm_worker.handlers.chunks import objects

PASSED: Final = (
    "model", "temperature", "top_p", "user", "service_tier", "safety_identifier", "prompt_cache_key",
)  # fmt: skip
FARMS: Final = ("background", "metadata", "previous_response_id", "store")  # it keeps to these itself
# What becomes something else (docs/front-door.md says what). Whatever has another name asks for more than an answer, or
# says how it is asked: a chat answers the same without it.
MAPPED: Final = (
    "input", "instructions", "max_output_tokens", "parallel_tool_calls", "reasoning", "stream", "text", "tool_choice",
    "tools",
)  # fmt: skip
REFUSED: Final = {"prompt": "the model server has no prompts of yours"}
_FUNCTION: Final = ("name", "description", "parameters", "strict")
_NOTHING: Final[tuple[Any, ...]] = (None, [], {}, 0, "disabled", "none")
_ROLES: Final = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}


def items_of(value: Any) -> list[Any]:
    """The input of a request as a list of items: a text is the message of a user."""
    if value is None:
        return []
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    if not isinstance(value, list):
        raise unsupported("input", "a text, or a list of items")
    return value


def with_context(payload: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """The request behind the conversation before it, which the farm put together."""
    context = payload.get("context")
    return {**body, "input": [*context, *items_of(body.get("input"))]} if context else {**body}


def chat_request(body: Mapping[str, Any]) -> dict[str, Any]:
    """The body for `chat/completions`. Raises Failed, for good, with the name of a field that it cannot say."""
    fields = {name: value for name, value in body.items() if value not in (None, [], {})}
    for name in REFUSED.keys() & fields.keys():
        raise unsupported(name, REFUSED[name])
    return {
        **{name: value for name, value in fields.items() if name in PASSED},
        **({"max_tokens": fields["max_output_tokens"]} if "max_output_tokens" in fields else {}),
        **({"stream": True} if fields.get("stream") else {}),
        **_reasoning(fields.get("reasoning") or {}),
        **_text(fields.get("text") or {}),
        **_functions(fields),
        "messages": _messages(fields),
    }


def left_out(body: Mapping[str, Any]) -> list[str]:
    """What of a request its chat does not say, in a sentence each."""
    named = _others(body, {*PASSED, *FARMS, *MAPPED})
    for part, fields in (("reasoning", {"effort"}), ("text", {"format", "verbosity"})):
        named += [f"{part}.{name}" for name in _others(body.get(part), fields)]
    named += [f"the tool {tool.get('type')}" for tool in objects(body.get("tools")) if tool.get("type") != "function"]
    return [f"Left out: {name}. The model server has chat/completions alone." for name in named]


def _others(value: Any, known: set[str]) -> list[str]:
    """The fields of an object that say something, without those that are known."""
    fields = value if isinstance(value, dict) else {}
    return sorted(name for name in fields.keys() - known if fields[name] not in _NOTHING)


def _functions(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Functions and their choice; a server without any may refuse a choice among none."""
    tools, choice = fields.get("tools") or [], fields.get("tool_choice")
    if not isinstance(tools, list):
        raise unsupported("tools", "a list")
    functions = [_function(tool) for tool in objects(tools) if tool.get("type") == "function"]
    if not functions:
        if choice not in (None, "auto", "none"):
            raise unsupported("tool_choice", "there are no functions to choose from")
        return {}
    same = {name: fields[name] for name in ("parallel_tool_calls",) if name in fields}
    return {"tools": functions, **same, **_tool_choice(choice)}


def _function(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A tool as a chat has it; how it is handed to the model, no model server has a word for."""
    return {"type": "function", "function": {name: tool[name] for name in _FUNCTION if tool.get(name) is not None}}


def _tool_choice(choice: Any) -> dict[str, Any]:
    if choice is None:
        return {}
    if choice in ("auto", "none", "required"):
        return {"tool_choice": choice}
    if isinstance(choice, dict) and choice.get("type") == "function":
        return {"tool_choice": {"type": "function", "function": {"name": str(choice.get("name"))}}}
    raise unsupported("tool_choice", "auto, none, required or a function")


def _object(value: Any, at: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise unsupported(at, "an object")
    return value


def _reasoning(reasoning: Any) -> dict[str, Any]:
    effort = _object(reasoning, "reasoning").get("effort")
    return {"reasoning_effort": effort} if effort else {}


def _text(text: Any) -> dict[str, Any]:
    text = _object(text, "text")
    verbosity = {"verbosity": text["verbosity"]} if text.get("verbosity") else {}
    shape = text.get("format") or {"type": "text"}
    kind = shape.get("type") if isinstance(shape, dict) else None
    if kind == "text":
        return verbosity
    if kind == "json_object":
        return {**verbosity, "response_format": {"type": "json_object"}}
    if kind != "json_schema":
        raise unsupported("text.format.type", "text, json_object or json_schema")
    schema = {name: value for name, value in shape.items() if name != "type" and value is not None}
    return {**verbosity, "response_format": {"type": "json_schema", "json_schema": schema}}


def _messages(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if "instructions" in fields:
        messages.append({"role": "system", "content": _parts(fields["instructions"], "instructions")})
    for number, item in enumerate(items_of(fields.get("input"))):
        at = f"input[{number}]"
        kind = item.get("type", "message") if isinstance(item, dict) else None
        add = ITEMS.get(str(kind))
        if add is None:
            raise unsupported(f"{at}.type", f"chat/completions has no place for {kind!r}")
        add(messages, item, at)
    return turns_of(messages)


def _add_message(messages: list[dict[str, Any]], item: Mapping[str, Any], at: str) -> None:
    role = _ROLES.get(str(item.get("role")))
    if role is None:
        raise unsupported(f"{at}.role", "user, assistant, system or developer")
    messages.append({"role": role, "content": _parts(item.get("content"), f"{at}.content")})


def _add_call(messages: list[dict[str, Any]], item: Mapping[str, Any], at: str) -> None:
    """Calls of one turn are one message, together with what was written before them."""
    for name in ("call_id", "name", "arguments"):
        if not isinstance(item.get(name), str):
            raise unsupported(f"{at}.{name}", "a text")
    function = {"name": item["name"], "arguments": item["arguments"]}
    call = {"id": item["call_id"], "type": "function", "function": function}
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": None})
    messages[-1].setdefault("tool_calls", []).append(call)


def _add_output(messages: list[dict[str, Any]], item: Mapping[str, Any], at: str) -> None:
    parts = _parts(item.get("output"), f"{at}.output")
    if any(part["type"] != "text" for part in parts):
        raise unsupported(f"{at}.output", "only texts: chat/completions takes no picture from a function")
    output = "".join(part["text"] for part in parts)
    messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": output})


def _leave_out(_messages: list[dict[str, Any]], _item: Mapping[str, Any], _at: str) -> None:
    """Earlier reasoning, which the templates of models that reason leave out; searches of another server, whose
    outcome is the message behind them."""


ITEMS: Final[Mapping[str, Callable[[list[dict[str, Any]], Mapping[str, Any], str], None]]] = {
    "message": _add_message,
    "function_call": _add_call,
    "function_call_output": _add_output,
    "reasoning": _leave_out,
    "web_search_call": _leave_out,
}


def _parts(content: Any, at: str) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise unsupported(at, "a text, or a list of parts")
    return [_part(part, f"{at}[{number}]") for number, part in enumerate(content)]


def _part(part: Any, at: str) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in ("input_text", "output_text", "text"):
        return {"type": "text", "text": _of_type(str, part, "text", at)}
    if kind == "refusal":
        return {"type": "refusal", "refusal": _of_type(str, part, "refusal", at)}
    if kind == "input_image":
        detail = {"detail": part["detail"]} if part.get("detail") else {}
        return {"type": "image_url", "image_url": {"url": _of_type(str, part, "image_url", at), **detail}}
    if kind == "input_audio":
        return {"type": "input_audio", "input_audio": _of_type(dict, part, "input_audio", at)}
    if kind == "input_file":
        file = {"file_data": _of_type(str, part, "file_data", at), "filename": part.get("filename") or "file"}
        return {"type": "file", "file": file}
    raise unsupported(f"{at}.type", f"chat/completions has no place for {kind!r}")


def _of_type(wanted: type, part: Mapping[str, Any], name: str, at: str) -> Any:
    """A part's own value; where it names a file kept elsewhere instead, there is none."""
    value = part.get(name)
    if not isinstance(value, wanted):
        raise unsupported(f"{at}.{name}", f"is needed; got {json.dumps(sorted(part))[:200]}")
    return value
