"""Arguments of live queries: numbers and texts, declared by the read's signature, checked on arrival."""

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any

from live import errors

Argument = int | str
Arguments = dict[str, Argument]

_LONGEST_TEXT = 1000
_LARGEST_NUMBER = 2**63 - 1  # what PostgreSQL's bigint holds


def declared(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the keyword-only parameters of a read. Raises BadDeclaration: all must be `int` or `str`."""
    parameters = {
        name: parameter
        for name, parameter in inspect.signature(function, eval_str=True).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    for name, parameter in parameters.items():
        if parameter.annotation not in (int, str):
            raise errors.BadDeclaration(f"{function.__qualname__}: {name} must be annotated int or str")
    return parameters


def checked(values: object, *, parameters: Mapping[str, inspect.Parameter]) -> Arguments:
    """Return the arguments, defaults filled in, in declared order. Raises BadArguments at the first fault."""
    if not isinstance(values, Mapping):
        raise errors.BadArguments("Arguments come as an object with names")
    unknown = [str(name) for name in values if name not in parameters]
    if unknown:
        raise errors.BadArguments(f"There is no argument {unknown[0]!r}")
    return {name: _value(name, values, parameter) for name, parameter in parameters.items()}


def canonical(arguments: Mapping[str, Argument]) -> str:
    return json.dumps(arguments, sort_keys=True, separators=(",", ":"))


def _value(name: str, values: Mapping[object, object], parameter: inspect.Parameter) -> Argument:
    value = values.get(name, parameter.default)
    if value is inspect.Parameter.empty:
        raise errors.BadArguments(f"The argument {name!r} is missing")
    if parameter.annotation is int and isinstance(value, int) and not isinstance(value, bool):
        return _number(name, value)
    if parameter.annotation is str and isinstance(value, str):
        return _text(name, value)
    raise errors.BadArguments(f"The argument {name!r} must be {_NOUNS[parameter.annotation]}")


_NOUNS = {int: "a whole number", str: "a text"}


def _number(name: str, value: int) -> int:
    if abs(value) > _LARGEST_NUMBER:
        raise errors.BadArguments(f"The argument {name!r} is too large a number")
    return value


def _text(name: str, value: str) -> str:
    if len(value) > _LONGEST_TEXT:
        raise errors.BadArguments(f"The argument {name!r} is longer than {_LONGEST_TEXT} characters")
    if "\x00" in value or not _is_unicode(value):
        raise errors.BadArguments(f"The argument {name!r} holds characters that cannot be stored")
    return value


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:  # JSON can say half of a surrogate pair; PostgreSQL cannot
        return False
    return True
