"""Arguments of scheduled functions: checked when they are given, not when the function runs."""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from core.values import dumps
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
        return json.loads(dumps(value))
    except ValueError as error:
        raise NotJson(function=name, part=part, why=str(error)) from None
