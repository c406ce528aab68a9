"""Jobs that come after others, or wait for a signal.

What may be asked for, how the names of one call become an order, what an attempt that ends suspended waits for, and
what a flow template may say.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from core import templates
from core.templates import TemplateError
from jobs.errors import InvalidValue

MOST_INTO: Final = 10_000  # edges into one job
MOST_OUT: Final = 1_000  # and out of one
DEEPEST: Final = 1_000  # jobs one after another
RESULTS_BYTES: Final = 4_000_000  # of what a job comes after, that its claim brings
LONGEST_NAME: Final = 100
LARGEST_ID: Final = 2**63 - 1
WAITED: Final = "waited"  # the condition of an edge to a job that the other one submitted, and was suspended for
DATA_BYTES: Final = 64_000
LONGEST_S: Final = 5 * 366 * 86400.0
LONGEST_ID: Final = 64
LONGEST_KEY: Final = 200
TYPES: Final = ("string", "number", "integer", "boolean")
MOST_FIELDS: Final = 20
MOST_SHOWN: Final = 200  # characters of what a field may be
KEPT_DAYS: Final = 30  # a signal that nobody waits for yet
MOST_JOBS: Final = 1_000  # as in one bulk
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,49}")
_RESERVED: Final = {"by", "owner"}  # arguments of `operations.submit_flow` itself
# What a job of a template may have, and of which type that is.
_TYPES: Final[Mapping[str, Any]] = {
    "name": str, "kind": str, "payload": object, "after": list, "when": str, "queue": str, "priority": int,
    "max_attempts": int, "timeout_s": int | float, "unique_key": str, "concurrency_key": str, "tags": list,
    "requires": dict, "prefers": dict,
}  # fmt: skip


class Condition(StrEnum):
    """How those have to end that a job comes after."""

    SUCCESS = "success"
    ENDED = "ended"


def condition(when: str | None) -> Condition:
    """What is asked for; None is a success. Raises InvalidValue."""
    try:
        return Condition(when or Condition.SUCCESS)
    except ValueError:
        raise InvalidValue(field="when", why=f'"success" or "ended", not {when!r}') from None


def checked_name(text: str, *, field: str = "name", longest: int = LONGEST_NAME) -> str:
    """A name within a flow, of a signal, or what a signal is about (`field`), as it is. Raises InvalidValue."""
    if not 1 <= len(text) <= longest or not text.isprintable() or text != text.strip():
        raise InvalidValue(field=field, why=f"1 to {longest} printable characters, no space at its ends")
    return text


def after(named: Iterable[int | str]) -> tuple[int | str, ...]:
    """Ids of jobs, and names of the same call, each once. Raises InvalidValue."""
    references = tuple(dict.fromkeys(named))
    if len(references) > MOST_INTO:
        raise InvalidValue(field="after", why=f"{MOST_INTO:,} jobs at most, got {len(references):,}")
    for one in references:
        if type(one) is not str and not (type(one) is int and 1 <= one <= LARGEST_ID):
            raise InvalidValue(field="after", why=f"no job has the id {one}")
    return references


def places(names: Sequence[str | None], references: Mapping[int, Sequence[int | str]]) -> dict[int, tuple[int, ...]]:
    """Of each job of a call, by its place, the places of those that it names (`references`).

    Raises InvalidValue for a name that two have or none has, and for a circle, with its path.
    """
    known: dict[str, int] = {}
    for place, text in enumerate(names):
        if text is not None and known.setdefault(text, place) != place:
            raise InvalidValue(field="name", why=f"two jobs of one call are called {text!r}")
    before: dict[int, tuple[int, ...]] = {}
    for place, named in references.items():
        missing = [one for one in named if isinstance(one, str) and one not in known]
        if missing:
            raise InvalidValue(field="after", why=f"no job of this call is called {missing[0]!r}")
        before[place] = tuple(known[one] for one in named if isinstance(one, str))
    if circle := _circle(before):
        path = " -> ".join(names[place] or "" for place in circle)
        raise InvalidValue(field="after", why=f"they wait for one another in a circle: {path}")
    return before


def depths(before: Mapping[int, Sequence[int]], outside: Mapping[int, int]) -> dict[int, int]:
    """How many jobs come one after another before each of these, by its place; `outside`: what those of other calls
    that it comes after make of it. There is no circle."""
    known = dict[int, int]()
    for first in before:
        waiting = [first]
        while waiting:
            place = waiting[-1]
            if missing := [one for one in before.get(place, ()) if one not in known]:
                waiting += missing
                continue
            known[place] = max((known[one] + 1 for one in before.get(place, ())), default=0)
            known[place] = max(known[place], outside.get(place, 0))
            waiting.pop()
    return known


def downstream(first: int, after: Mapping[int, Sequence[int]]) -> list[int]:
    """A job and all that came after it, in the order of `after`: what each comes after, whoever comes first first."""
    known = {first}
    for job, before in after.items():
        if not known.isdisjoint(before):
            known.add(job)
    return [job for job in after if job in known]


def _circle(before: Mapping[int, Sequence[int]]) -> list[int]:
    """The places of a circle, its first once more at its end, in the order in which each comes after the next."""
    done: set[int] = set()
    for first in before:
        path: list[int] = []
        on_path: set[int] = set()
        waiting = [(first, 0)]
        while waiting:
            place, depth = waiting.pop()
            while len(path) > depth:
                left = path.pop()
                on_path.discard(left)
                done.add(left)
            if place in on_path:
                return [*path[path.index(place) :], place]
            if place in done:
                continue
            path.append(place)
            on_path.add(place)
            waiting += [(one, depth + 1) for one in before.get(place, ())]
        done.update(path)
    return []


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


def signal_fields(schema: Any) -> list[SignalField]:
    """What a simple JSON schema names: an object of texts, numbers, yes or no, and choices; nothing of any other."""
    try:
        named, required = schema["properties"], set(schema.get("required", ()))
        made = [_field(name, one, is_required=name in required) for name, one in named.items()]
    except (TypeError, KeyError, AttributeError, ValueError):
        return []
    return made if len(made) <= MOST_FIELDS else []


def misfit(schema: Any, data: Any) -> str | None:
    """Why the form of this schema could not send such data; None: it could, or has one field for any JSON."""
    named = signal_fields(schema)
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


def parsed_schema(schema: str | None) -> Any:
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


def check_template(jobs: Any, placeholders: Any) -> None:
    """Raise InvalidValue for what is no list of jobs, or names a placeholder that is none of these."""
    if not isinstance(placeholders, Mapping):
        raise InvalidValue(field="placeholders", why="an object of names, each with its default")
    for name in placeholders:
        if not _NAME.fullmatch(name) or name in _RESERVED:
            raise InvalidValue(field="placeholders", why=f"{name[:60]!r} is no name: a-z 0-9 _, not by, nor owner")
    if not isinstance(jobs, list | tuple) or not 1 <= len(jobs) <= MOST_JOBS:
        raise InvalidValue(field="jobs", why=f"a list of 1 to {MOST_JOBS:,} jobs")
    for number, job in enumerate(jobs, start=1):
        if why := _mistake(job):
            raise InvalidValue(field="jobs", why=f"job {number}: {why}")
    try:
        templates.check([*jobs], _reason(placeholders))
    except TemplateError as refusal:
        raise InvalidValue(field="jobs", why=refusal.reason) from None


def filled_template(jobs: Sequence[Mapping[str, Any]], placeholders: Mapping[str, Any], values: Mapping[str, Any], *,
           limit_bytes: int) -> list[dict[str, Any]]:  # fmt: skip
    """The jobs with these values in place of their placeholders; what is not among them has its default.

    Raises InvalidValue for a value that no placeholder has, for a placeholder without one that has no `?`, and where
    more than `limit_bytes` would be put in.
    """
    for name in values.keys() - placeholders.keys():
        raise InvalidValue(field="values", why=f"there is no placeholder {name!r}")
    known = {name: value for name, value in {**placeholders, **values}.items() if value is not None}
    try:
        made = templates.render([*jobs], known, reason=_reason(placeholders), limit_bytes=limit_bytes)
    except TemplateError as refusal:
        raise InvalidValue(field="values", why=refusal.message.rstrip(".")) from None
    return [_as_texts(job) for job in made]


def _as_texts(job: dict[str, Any]) -> dict[str, Any]:
    """With texts where a job has texts, whatever type a value has that is put there."""
    texts = {name: templates.as_text(job[name]) for name in ("unique_key", "concurrency_key") if name in job}
    return job | texts | ({"tags": [templates.as_text(tag) for tag in job["tags"]]} if "tags" in job else {})


def _mistake(job: Any) -> str | None:
    if not isinstance(job, Mapping):
        return "an object with a name and a kind"
    for name in ("name", "kind"):
        if name not in job:
            return f"it has no {name}"
    for name, value in job.items():
        if name not in _TYPES:
            return f"there is no {name!r}; there are {', '.join(_TYPES)}"
        if not isinstance(value, _TYPES[name]):
            return f"its {name} cannot be {value!r}"
    if not all(isinstance(one, str) for one in job.get("after", ())):
        return "its after is a list of names of other jobs of the template"
    return None


def _reason(placeholders: Mapping[str, Any]) -> templates.Reason:
    def reason(path: str) -> str | None:
        name = path.partition(".")[0]
        known = ", ".join(placeholders) or "there are none"
        return None if name in placeholders else f"{name[:60]!r} is none of its placeholders: {known}"

    return reason
