"""Arguments of scheduled functions: checked when they are given, not when the function runs."""

import inspect
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from scheduling.domain.options import RESERVED
from scheduling.errors import BadArguments, NotAFunction, NotJson

# What JSON can say and gives back as it was; a tuple comes back as a list.
Json: TypeAlias = str | float | bool | Sequence["Json"] | Mapping[str, "Json"] | None

_BY_NAME = {inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD}


def signature(function: Callable[..., Any], *, name: str) -> inspect.Signature:
    """The signature of a function that can be scheduled. Raises NotAFunction.

    Arguments are stored by name, so all parameters are keyword-only; and its module must be able to hand it out
    again by that name, so it is defined at the top of it.
    """
    if not inspect.isfunction(function):
        raise NotAFunction(function=name, why="it is not a plain function")
    if "<locals>" in function.__qualname__ or "<lambda>" in function.__qualname__:
        raise NotAFunction(function=name, why="it must be defined at the top of a module, to be found by its name")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise NotAFunction(function=name, why="it must be a plain function, neither async nor a generator")
    parsed = inspect.signature(function)
    for parameter in parsed.parameters.values():
        if parameter.kind not in _BY_NAME:
            raise NotAFunction(function=name, why=f"its parameter {parameter.name!r} is not keyword-only (after a *)")
        if parameter.name in RESERVED:
            raise NotAFunction(
                function=name, why=f"its parameter {parameter.name!r} is run_after's own: give it another name"
            )
    return parsed


def checked(arguments: Mapping[str, Any], *, signature: inspect.Signature, name: str) -> dict[str, Any]:
    """`arguments` as the database returns them. Raises BadArguments, or NotJson for a value that would change."""
    try:
        signature.bind(**arguments)
    except TypeError as error:
        raise BadArguments(function=name, why=str(error)) from None
    return {key: json_value(value, name=name, part=f"argument {key!r}") for key, value in arguments.items()}


def json_value(value: Any, *, name: str, part: str) -> Any:
    """`value` if JSON can say it and give it back as it was (a tuple comes back as a list). Raises NotJson."""
    try:
        _check(value, depth=0)
        text = json.dumps(value, allow_nan=False)
        text.encode()
    except (TypeError, ValueError, RecursionError, UnicodeError) as error:
        raise NotJson(function=name, part=part, why=str(error) or type(error).__name__) from None
    return json.loads(text)


_DEEPEST = 100  # levels of lists and mappings; PostgreSQL's own limit depends on its stack


def _check(value: Any, *, depth: int) -> None:
    if depth > _DEEPEST:
        raise ValueError(f"it is nested deeper than {_DEEPEST} levels")
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, dict | list | tuple):
        _check_inside(value, depth=depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no number in JSON")
    elif value is not None and not isinstance(value, bool | int | float):
        raise TypeError(f"a {type(value).__name__} is not JSON")


def _check_inside(value: Any, *, depth: int) -> None:
    if isinstance(value, dict):
        for key in value:
            _check_key(key)
    for item in value.values() if isinstance(value, dict) else value:
        _check(item, depth=depth)


def _check_key(key: Any) -> None:
    if not isinstance(key, str):
        raise TypeError(f"the key {key!r} is not a text")
    _check_text(key)


def _check_text(text: str) -> None:
    if "\x00" in text:
        raise ValueError("a text holds a NUL character, which PostgreSQL cannot store")
    text.encode()  # a lone surrogate is no text
