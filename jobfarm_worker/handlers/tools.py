"""Tools of the Responses API as functions of a chat, and the calls of those functions as what was asked for.

A function in a namespace becomes one with both names; a custom tool, whose input is a text, a function with the one
argument `input`. Tools that the server of a model would run itself are left out where they only offer more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from jobfarm_worker.errors import Failed
from jobfarm_worker.handlers import answers

# What a model may use or not: without it the answer is one that it could have given anyway.
OFFERED: Final = ("web_search", "web_search_preview", "web_search_2025_08_26", "image_generation", "tool_search")
_INPUT: Final = {
    "type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"],
    "additionalProperties": False,
}  # fmt: skip
# How a tool is handed to the model, which no model server has a word for.
_UNSAID: Final = frozenset({"allowed_callers", "async", "defer_loading"})


def unsupported(param: str, why: str) -> Failed:
    """The refusal of a field, in OpenAI's form; for good."""
    message = f"{param}: {why}"
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": "unsupported_value"}
    return answers.refused(400, {"error": error}, message=message, retryable=False)


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: its name, what is around it, and how a chat has it."""

    name: str
    namespace: str = ""
    is_custom: bool = False
    function: Mapping[str, Any] = field(default_factory=dict)

    @property
    def chat_name(self) -> str:
        return named(self.name, self.namespace)

    def item(self, arguments: str = "") -> dict[str, Any]:
        inside = {"namespace": self.namespace} if self.namespace else {}
        if self.is_custom:
            return {"type": "custom_tool_call", "name": self.name, "input": custom_input(arguments), **inside}
        return {"type": "function_call", "name": self.name, "arguments": arguments, **inside}


def named(name: str, namespace: Any = None) -> str:
    """The name of a function of a namespace in a chat."""
    return f"{namespace}__{name}" if namespace else name


def custom_arguments(text: str) -> str:
    return json.dumps({"input": text})


def custom_input(arguments: str) -> str:
    """The input of a custom tool, out of those: as the model wrote it where it did not keep to their form."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    text = value.get("input") if isinstance(value, dict) else None
    return text if isinstance(text, str) else arguments


def tools_of(value: Any, *, at: str = "tools", namespace: str = "") -> Iterator[Tool]:
    """The tools of a request as functions, those that are only offered left out. Raises Failed for any other."""
    if not isinstance(value, list):
        raise unsupported(at, "a list")
    for number, tool in enumerate(value):
        here = f"{at}[{number}]"
        kind = tool.get("type") if isinstance(tool, dict) else None
        if kind == "namespace" and not namespace:
            yield from tools_of(tool.get("tools"), at=f"{here}.tools", namespace=str(tool.get("name")))
        elif kind == "function":
            check_fields(tool, here, {"type", "name", "description", "parameters", "strict"} | _UNSAID)
            fields = {name: each for name, each in tool.items() if name not in _UNSAID | {"type"} and each is not None}
            yield Tool(str(tool.get("name")), namespace, function=fields)
        elif kind == "custom":
            check_fields(tool, here, {"type", "name", "description", "format"} | _UNSAID)
            fields = {"description": _custom_description(tool), "parameters": _INPUT}
            yield Tool(str(tool.get("name")), namespace, is_custom=True, function=fields)
        elif kind not in OFFERED:
            raise unsupported(f"{here}.type", "only functions: the model server runs no tools of its own")


def by_chat_name(value: Any) -> dict[str, Tool]:
    """The tools of a request by their names in a chat; none where they would be refused."""
    try:
        return {tool.chat_name: tool for tool in tools_of(value or [])}
    except Failed:
        return {}


def chat_tools(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Tools and their choice; a server without tools may refuse a choice among none. Raises Failed."""
    tools = list(tools_of(fields.get("tools") or []))
    choice = fields.get("tool_choice")
    if not tools:
        if choice not in (None, "auto", "none"):
            raise unsupported("tool_choice", "there are no tools to choose from")
        return {}
    functions = [{"type": "function", "function": {**tool.function, "name": tool.chat_name}} for tool in tools]
    parallel = {name: fields[name] for name in ("parallel_tool_calls",) if name in fields}
    return {"tools": functions, **parallel, **_tool_choice(choice)}


def left_out(value: Any) -> list[str]:
    """The types of those tools that are left out."""
    kinds = [tool.get("type") for tool in value if isinstance(tool, dict)] if isinstance(value, list) else []
    return [kind for kind in kinds if kind in OFFERED]


def check_fields(value: Any, at: str, known: set[str] | frozenset[str]) -> None:
    """Raise Failed for what is no object, or has a field that is not known."""
    if not isinstance(value, dict):
        raise unsupported(at, "an object")
    for name, each in value.items():
        if name not in known and each is not None:
            raise unsupported(f"{at}.{name}", "chat/completions has no such field")


def _custom_description(tool: Mapping[str, Any]) -> str:
    """What the tool is for, and the form of its input, which nothing but these words asks the model for."""
    shape = tool.get("format")
    grammar = shape if isinstance(shape, dict) and shape.get("type") == "grammar" else {}
    form = f"`input` is a text of this {grammar.get('syntax')} grammar:\n{grammar.get('definition')}"
    return "\n\n".join([*filter(None, [tool.get("description")]), form if grammar else "`input` is a text."])


def _tool_choice(choice: Any) -> dict[str, Any]:
    if choice is None:
        return {}
    if choice in ("auto", "none", "required"):
        return {"tool_choice": choice}
    if isinstance(choice, dict) and choice.get("type") in ("function", "custom"):
        name = named(str(choice.get("name")), choice.get("namespace"))
        return {"tool_choice": {"type": "function", "function": {"name": name}}}
    raise unsupported("tool_choice", "auto, none, required, a function or a custom tool")
