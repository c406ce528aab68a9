"""Filters of rules: an object of paths, each with what has to be there. All conditions have to be met.

`"x"`, `7`, `true`, `null`: this value. `["x", "y"]`: one of these. `{"exists": true}`, `{"prefix": "refs/tags/"}`,
`{"not": "x"}` or `{"not": ["x", "y"]}`: what they say; several in one object have to hold together.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from webhooks.domain import paths
from webhooks.errors import BadRule

MOST: Final = 50
_SHOWN: Final = 80
_SCALARS: Final = (str, bool, int, float, type(None))


def check(conditions: Any) -> None:
    if not isinstance(conditions, Mapping):
        raise _bad('it is an object of paths, like {"body.ref": "refs/heads/main"}')
    if len(conditions) > MOST:
        raise _bad(f"it has more than {MOST} conditions")
    for path, condition in conditions.items():
        if why := paths.reason(str(path)):
            raise _bad(why)
        _check_condition(path, condition)


def mismatch(conditions: Mapping[str, Any], values: Mapping[str, Any]) -> str | None:
    """The first condition that is not met, as what is there instead; None if the delivery fits."""
    for path, condition in conditions.items():
        value = paths.find(path, values)
        if not _is_met(condition, value):
            return f"{path} is {_shown(value)}"
    return None


def _is_met(condition: Any, value: Any) -> bool:
    if isinstance(condition, Mapping):
        return all(_OPERATORS[name](wanted, value) for name, wanted in condition.items())
    return _is_one_of(condition, value)


def _is_one_of(wanted: Any, value: Any) -> bool:
    """As JSON has it: 12 and 12.0 are the same, true and 1 are not."""
    several = wanted if isinstance(wanted, list) else [wanted]
    return any(isinstance(one, bool) is isinstance(value, bool) and one == value for one in several)


_OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "exists": lambda wanted, value: (value is not paths.MISSING) is wanted,
    "prefix": lambda wanted, value: isinstance(value, str) and value.startswith(wanted),
    "not": lambda wanted, value: not _is_one_of(wanted, value),
}


def _check_condition(path: str, condition: Any) -> None:
    if not isinstance(condition, Mapping):
        _check_values(path, condition)
        return
    unknown = [name for name in condition if name not in _OPERATORS]
    if unknown or not condition:
        raise _bad(f"{path}: a condition says {', '.join(_OPERATORS)}, or is a value or a list of values")
    if not isinstance(condition.get("exists", True), bool):
        raise _bad(f"{path}: exists is true or false")
    if not isinstance(condition.get("prefix", ""), str):
        raise _bad(f"{path}: prefix is a text")
    _check_values(path, condition.get("not"))


def _check_values(path: str, wanted: Any) -> None:
    for one in wanted if isinstance(wanted, list) else [wanted]:
        if not isinstance(one, _SCALARS):
            raise _bad(f"{path}: it can be compared with texts, numbers, true, false and null alone")


def _shown(value: Any) -> str:
    if value is paths.MISSING:
        return "not there"
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, _SCALARS) else type(value).__name__
    text = {"dict": "an object", "list": "a list"}.get(text, text)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _bad(reason: str) -> BadRule:
    return BadRule(field="filter", reason=reason)
