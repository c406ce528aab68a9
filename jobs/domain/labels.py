"""Labels of workers (`vram=24`, `region=home`), and what jobs require and prefer of them.

A condition is a text behind its label: `home` (equal), `home|office` (one of a few), `>=16`, `<=16`. Numbers compare as
numbers, so that 16 equals 16.0. A worker without the label never meets a condition. `loaded` is a label that nobody
sets: the models that the worker announces as loaded. WORKER is one that nobody can write: the id of the worker.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from jobs.errors import InvalidValue

MOST_LABELS: Final = 32  # of a worker
MOST_CONDITIONS: Final = 8  # that a job requires, and as many that it prefers
MOST_CHOICES: Final = 16  # of one condition
LONGEST: Final = 200  # characters of a value: as long as a model's name may be
LONGEST_SET: Final = 1000  # characters of all conditions of a job
LOADED: Final = "loaded"
WORKER: Final = "@worker"  # no KEY
KEY: Final = re.compile(r"[a-z][a-z0-9_.-]{0,62}")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{1,30})?")
_BOUND: Final = re.compile(r"(>=|<=)\s*(.*)", re.DOTALL)
_PAIR: Final = re.compile(r"\s*([^\s=<>|]+)\s*(>=|<=|=)(.*)", re.DOTALL)

Conditions = Mapping[str, str]
Values = Mapping[str, Collection[str]]  # of each label; more than one of `loaded` alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """What a job requires of a worker's labels, and what it prefers; each condition by its label."""

    requires: Conditions
    prefers: Conditions

    @property
    def text(self) -> str:
        both = {"requires": self.requires, "prefers": self.prefers}
        return json.dumps(both, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def checked_labels(labels: Mapping[str, Any], *, allows_empty: bool = False) -> dict[str, str]:
    """Labels of a worker as they are stored. `allows_empty`: an empty value is one too. Raises InvalidValue."""
    if len(labels) > MOST_LABELS:
        raise InvalidValue(field="labels", why=f"{MOST_LABELS} at most, got {len(labels)}")
    for key in labels:
        _check_key(key, field="labels")
    if LOADED in labels:
        raise InvalidValue(field="labels", why=f"{LOADED} is what the farm calls the models that are loaded")
    return {
        key: "" if allows_empty and value == "" else _value(value, field="labels", key=key)
        for key, value in sorted(labels.items())
    }


def read_pairs(pairs: Iterable[str], *, field: str) -> dict[str, str]:
    """Conditions, or labels, as people write them: `vram>=16`, `region=home`. Raises InvalidValue."""
    read: dict[str, str] = {}
    for pair in pairs:
        match = _PAIR.fullmatch(pair)
        if match is None:
            raise InvalidValue(field=field, why=f"such as vram>=16 or region=home, got {pair[:80]!r}")
        key, sign, value = match.groups()
        if key in read:
            raise InvalidValue(field=field, why=f"one condition for each label, {key[:80]} has two")
        read[key] = value.strip() if sign == "=" else sign + value.strip()
    return read


def requirement(
    *,
    requires: Mapping[str, Any] | None,
    prefers: Mapping[str, Any] | None,
    usual: Conditions,
    worker: int | None = None,
) -> Requirement | None:
    """What a job requires and prefers; what it requires goes over the `usual` of its kind, label by label. One that
    chooses nothing prefers this `worker`. None: nothing. Raises InvalidValue."""
    own, wished = conditions(requires or {}, field="requires"), conditions(prefers or {}, field="prefers")
    if worker is not None and not own and not wished:
        wished = {WORKER: str(worker)}
    # What is required anyway is no preference.
    made = Requirement(requires=dict(sorted({**usual, **own}.items())), prefers=wished)
    if not made.requires and not made.prefers:
        return None
    if len(made.text) > LONGEST_SET:
        why = f"{LONGEST_SET} characters at most for all conditions, got {len(made.text)}"
        raise InvalidValue(field="requires", why=why)
    return made


def conditions(named: Mapping[str, Any], *, field: str) -> dict[str, str]:
    """The one spelling of these conditions. A number or a list stands for itself. Raises InvalidValue."""
    if not isinstance(named, Mapping):
        raise InvalidValue(field=field, why=f'an object such as {{"gpu": "yes"}}, got {named!r:.80}')
    if len(named) > MOST_CONDITIONS:
        raise InvalidValue(field=field, why=f"{MOST_CONDITIONS} conditions at most, got {len(named)}")
    for key in named:
        _check_key(key, field=field)
    return {key: _condition(value, field=field, key=key) for key, value in sorted(named.items())}


def effective(
    *, announced: Mapping[str, str], by_staff: Mapping[str, str], loaded: Iterable[str] = ()
) -> dict[str, Collection[str]]:
    """The labels that count: what staff set wins over what the worker announces, an empty value takes one away."""
    both = {**announced, **by_staff}
    values: dict[str, Collection[str]] = {key: (value,) for key, value in both.items() if value}
    return {**values, **({LOADED: frozenset(loaded)} if loaded else {})}


def meets(named: Conditions, values: Values) -> bool:
    return not unmet(named, values)


def unmet(named: Conditions, values: Values) -> dict[str, str]:
    """The conditions that a worker with these labels does not meet."""
    return {key: condition for key, condition in named.items() if not _meets(condition, values.get(key, ()))}


def nearest(named: Conditions, workers: Mapping[str, Values]) -> tuple[str, Values]:
    """Of workers by name the one that lacks the fewest conditions, of those alike the one with the nearest numbers."""
    return min(workers.items(), key=lambda pair: (*_distance(named, pair[1]), pair[0]))


def chosen(named: Conditions) -> dict[str, str]:
    """Those of these conditions that somebody wrote."""
    return {key: condition for key, condition in named.items() if key != WORKER}


def in_words(named: Conditions) -> str:
    """Conditions as people write them: "region=home and vram>=16"."""
    return " and ".join(pair(key, condition) for key, condition in sorted(chosen(named).items()))


def pair(key: str, condition: str) -> str:
    """A condition, or a label, as people write it: "vram>=16"."""
    return f"{key}{condition}" if _BOUND.match(condition) else f"{key}={condition}"


def _distance(named: Conditions, values: Values) -> tuple[int, Decimal]:
    """How many conditions a worker does not meet, and how far it is from the bounds among them: a share of each."""
    short = unmet(named, values)
    away = Decimal(0)
    for key, condition in short.items():
        bound = _BOUND.fullmatch(condition)
        numbers = [Decimal(value) for value in values.get(key, ()) if _NUMBER.fullmatch(value)]
        if bound is None or not numbers:
            away += 1
        else:
            least = Decimal(bound[2])
            away += min(abs(number - least) / max(abs(number), abs(least), Decimal(1)) for number in numbers)
    return len(short), away


def _check_key(key: str, *, field: str) -> None:
    if not KEY.fullmatch(key):
        raise InvalidValue(field=field, why=f"a label is a-z 0-9 _ . - (63 at most), a letter first, got {key[:80]!r}")


def _value(value: Any, *, field: str, key: str) -> str:
    text = str(value).strip() if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
    if not 1 <= len(text) <= LONGEST or not text.isprintable() or "|" in text or text[0] in "<>=":
        why = f"{key} has a number or a text of 1 to {LONGEST} printable characters, without | and leading <>="
        raise InvalidValue(field=field, why=why)
    return text


def _condition(value: Any, *, field: str, key: str) -> str:
    if isinstance(value, str) and (bound := _BOUND.fullmatch(value.strip())):
        if not _NUMBER.fullmatch(bound[2].strip()):
            raise InvalidValue(field=field, why=f"{key}{bound[1]} needs a number, got {bound[2][:80]!r}")
        return bound[1] + _spelled(bound[2].strip())
    choices = value.split("|") if isinstance(value, str) else value if isinstance(value, list) else [value]
    if not 1 <= len(choices) <= MOST_CHOICES:
        raise InvalidValue(field=field, why=f"{key} is one of 1 to {MOST_CHOICES}, got {len(choices)}")
    return "|".join(sorted({_spelled(_value(choice, field=field, key=key)) for choice in choices}))


def _spelled(value: str) -> str:
    if not _NUMBER.fullmatch(value):
        return value
    number = f"{Decimal(value):f}"
    short = number.rstrip("0").rstrip(".") if "." in number else number
    return "0" if short == "-0" else short


def _meets(condition: str, values: Collection[str]) -> bool:
    if bound := _BOUND.fullmatch(condition):
        numbers = [Decimal(value) for value in values if _NUMBER.fullmatch(value)]
        least = Decimal(bound[2])
        return any(number >= least if bound[1] == ">=" else number <= least for number in numbers)
    choices = condition.split("|")
    return any(_spelled(value) in choices for value in values)
