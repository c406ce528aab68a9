"""What an attempt that ends suspended waits for, and the signals that it may wait for."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from jobs.domain.flows import MOST_INTO, checked_name
from jobs.errors import InvalidValue

DATA_BYTES: Final = 64_000
LONGEST_S: Final = 5 * 366 * 86400.0
LONGEST_ID: Final = 64
LONGEST_KEY: Final = 200
TYPES: Final = ("string", "number", "integer", "boolean")
MOST_FIELDS: Final = 20
MOST_SHOWN: Final = 200  # characters of what a field may be
KEPT_DAYS: Final = 30  # a signal that nobody waits for yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """The jobs that it submitted, all of which have to end, however they do; or a signal of this name, which people
    send by a form with the fields of `schema`, and who does not know the job by `signal_key`; both for so many seconds
    at most (`timeout_s`); or a moment. Nothing: it is due again at once."""

    children: Sequence[int] = ()
    signal: str | None = None
    signal_key: str | None = None
    schema: Mapping[str, Any] | None = None
    timeout_s: float | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        """Raise InvalidValue for what cannot be waited for."""
        self._check_signal()
        if len(self.children) > MOST_INTO:
            raise InvalidValue(field="children", why=f"{MOST_INTO:,} at most, got {len(self.children):,}")
        named = [field for field in ("children", "signal", "until") if getattr(self, field)]
        if len(named) > 1:
            raise InvalidValue(field=named[0], why=f"one waits for this or for {named[1]}")
        if self.timeout_s is not None:
            self._check_timeout()
        if self.until is not None and self.until.tzinfo is None:
            raise InvalidValue(field="until", why="it needs a time zone")

    def _check_signal(self) -> None:
        for about in ("schema", "signal_key"):
            if getattr(self, about) is not None and self.signal is None:
                raise InvalidValue(field=about, why="it is about a signal, and there is none")
        if self.signal is not None:
            checked_name(self.signal)
        if self.signal_key is not None:
            checked_name(self.signal_key, field="signal_key", longest=LONGEST_KEY)

    def _check_timeout(self) -> None:
        if not (self.children or self.signal):
            raise InvalidValue(field="timeout", why="it is about jobs or a signal, and there are none")
        if self.timeout_s is None or not (math.isfinite(self.timeout_s) and 0 < self.timeout_s <= LONGEST_S):
            raise InvalidValue(field="timeout", why=f"positive and under five years, got {self.timeout_s}")


AT_ONCE: Final = Wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalField:
    """A field of the form by which people send a signal."""

    name: str
    type: str  # one of TYPES
    label: str
    choices: tuple[Any, ...]
    is_required: bool

    def __hash__(self) -> int:
        return hash(self.name)


def fields(schema: Any) -> list[SignalField]:
    """What a simple JSON schema names: an object of texts, numbers, yes or no, and choices; nothing of any other."""
    try:
        named, required = schema["properties"], set(schema.get("required", ()))
        made = [_field(name, one, is_required=name in required) for name, one in named.items()]
    except (TypeError, KeyError, AttributeError, ValueError):
        return []
    return made if len(made) <= MOST_FIELDS else []


def misfit(schema: Any, data: Any) -> str | None:
    """Why the form of this schema could not send such data; None: it could, or has one field for any JSON."""
    named = fields(schema)
    if named and not isinstance(data, Mapping):
        return "an object with the fields of the schema"
    for field in named:
        if field.name not in data:
            if field.is_required:
                return f"{field.name} is missing"
        elif field.choices and not any(_is(choice, data[field.name]) for choice in field.choices):
            return f"{field.name} is one of {json.dumps(field.choices)[:MOST_SHOWN]}"
        elif not field.choices and not _FITS[field.type](data[field.name]):
            return f"{field.name} is of the type {field.type}"
    return None


def _is(one: Any, other: Any) -> bool:
    """As JSON has it, where true is no number."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_FITS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str), "boolean": lambda value: isinstance(value, bool),
    "number": _is_number, "integer": lambda value: _is_number(value) and value == value // 1,
}  # fmt: skip


def parsed(schema: str | None) -> Any:
    """A schema that is stored; none where that is not JSON: whoever sends the signal can write any then."""
    try:
        return json.loads(schema or "null")
    except ValueError:
        return None


def _field(name: str, one: Mapping[str, Any], *, is_required: bool) -> SignalField:
    choices = tuple(one.get("enum", ()))
    kind = one["type"] if not choices else one.get("type", "string")
    if kind not in TYPES or name in {"key", "json"}:
        raise ValueError(name)
    label = str(one.get("title", name))
    return SignalField(name=name, type=kind, label=label, choices=choices, is_required=is_required)


def checked_id(text: str) -> str:
    """What its sender calls a signal. Raises InvalidValue."""
    if not 1 <= len(text) <= LONGEST_ID or not text.isascii() or not text.isprintable() or " " in text:
        raise InvalidValue(field="id", why=f"1 to {LONGEST_ID} printable ASCII characters without spaces")
    return text
