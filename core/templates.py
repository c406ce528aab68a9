"""Templates: any JSON, in whose strings `{{ path }}` stands for what is there, such as `body.commits.0.id`.

A string that is one placeholder becomes the value itself, with its type; within a longer text it becomes text.
`{{ path? }}` is null (within a text nothing) where there is no value; without the `?` that refuses. Nothing is called
or evaluated, names of objects are taken as they are, and values are not looked at again. A step of a path is a name
within an object, or a number within a list; it never reaches an attribute or a method.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from core.refusal import Refusal

LONGEST: Final = 20_000  # characters of a template as JSON
DEEPEST: Final = 50
_STEP: Final = r"[^\s.{}?|]+"
PATH: Final = rf"{_STEP}(?:\.{_STEP})*"
_PLACEHOLDER: Final = re.compile(rf"\{{\{{[ \t]*({PATH})(\?)?[ \t]*\}}\}}")
_COMPACT: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class TemplateError(Refusal):
    """The template cannot be used."""


class BadTemplate(TemplateError, code="bad_template", http_status=422):
    """The template cannot be used: {reason}."""


class MissingValue(TemplateError, code="missing_value", http_status=422):
    """There is no {path}, which the template needs. `{{{{ {path}? }}}}` uses null instead."""


class PayloadTooBig(TemplateError, code="payload_too_big", http_status=422):
    """What is put into the template would have more than {limit} bytes, which is the most that a job takes."""


class Missing:
    """What a path leads to where there is nothing; null is a value."""

    def __repr__(self) -> str:
        return "nothing"


MISSING: Final = Missing()
Reason = Callable[[str], str | None]  # why this is no path; None if it is one


def check(template: Any, reason: Reason) -> None:
    """Raise BadTemplate for what is no template, and for a path for which there is a `reason`."""
    _walk(template, lambda text: _check_text(text, reason))
    if len(_COMPACT.encode(template)) > LONGEST:
        raise BadTemplate(reason=f"it is longer than {LONGEST} characters")


def render(template: Any, values: Mapping[str, Any], *, reason: Reason, limit_bytes: int) -> Any:
    """What a template makes of these values.

    Raises MissingValue for a value that is not there, and PayloadTooBig before more than about `limit_bytes` were put
    in; BadTemplate for a template that `check` refuses. Values are shared and not copied.
    """
    return _walk(template, _Rendering(values, reason, limit_bytes).text)


def find(path: str, values: Mapping[str, Any]) -> Any:
    value: Any = values
    for step in path.split("."):
        value = _step(value, step)
        if value is MISSING:
            return MISSING
    return value


def _step(value: Any, step: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(step, MISSING)
    if isinstance(value, list) and step.isascii() and step.isdigit() and len(step) < 10:
        at = int(step)
        return value[at] if at < len(value) else MISSING
    return MISSING


class _Rendering:
    """One payload in the making, and how much more may be put into it."""

    def __init__(self, values: Mapping[str, Any], reason: Reason, limit_bytes: int) -> None:
        self._values = values
        self._reason = reason
        self._limit = limit_bytes
        self._room = limit_bytes

    def text(self, text: str) -> Any:
        if whole := _PLACEHOLDER.fullmatch(text):
            value = self._value(whole)
            return None if value is MISSING else value
        return _PLACEHOLDER.sub(lambda match: as_text(self._value(match)), text)

    def _value(self, match: "re.Match[str]") -> Any:
        path, is_optional = match[1], match[2]
        if why := self._reason(path):
            raise BadTemplate(reason=why)
        value = find(path, self._values)
        if value is MISSING and not is_optional:
            raise MissingValue(path=path)
        self._take(value)
        return value

    def _take(self, value: Any) -> None:
        """Count what goes in, and no further than there is room: a body of 25 MB may stand there a hundred times."""
        waiting = [value]
        while waiting:
            one = waiting.pop()
            self._room -= len(one) + 2 if isinstance(one, str) else 1
            if isinstance(one, Mapping):
                self._room -= sum(len(name) + 2 for name in one)
                waiting.extend(one.values())
            elif isinstance(one, list):
                waiting.extend(one)
            if self._room < 0:
                raise PayloadTooBig(limit=self._limit)


def as_text(value: Any) -> str:
    """A value within a text: a text as it is, null and nothing as none, all else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None or value is MISSING else _COMPACT.encode(value)


def _walk(template: Any, read: Callable[[str], Any], *, depth: int = 0) -> Any:
    """The template with each of its strings as it is read. Raises BadTemplate for what JSON does not have."""
    if depth > DEEPEST:
        raise BadTemplate(reason=f"it is nested more than {DEEPEST} deep")
    if isinstance(template, str):
        return read(template)
    if isinstance(template, Mapping):
        for name in template:
            if not isinstance(name, str):
                raise BadTemplate(reason=f"names within an object are strings, not {type(name).__name__}")
        return {name: _walk(one, read, depth=depth + 1) for name, one in template.items()}
    if isinstance(template, list | tuple):
        return [_walk(one, read, depth=depth + 1) for one in template]
    if template is None or isinstance(template, int) or (isinstance(template, float) and math.isfinite(template)):
        return template
    raise BadTemplate(reason=f"{type(template).__name__} is nothing that JSON has")


def _check_text(text: str, reason: Reason) -> None:
    for match in _PLACEHOLDER.finditer(text):
        if why := reason(match[1]):
            raise BadTemplate(reason=why)
    rest = _PLACEHOLDER.sub("", text)
    if "{{" in rest:
        shown = f"{rest[rest.index('{{') :][:40]!r}"
        raise BadTemplate(reason=f"{shown} is no placeholder: write {{{{ body.name }}}} or {{{{ body.name? }}}}")
