"""What a rule can watch, a number of each of some subjects, and what a rule may be: the bounds of its numbers, and who
can be written to. Durations in seconds.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from alerts.errors import BadRule
from core.values import duration


class Unit(StrEnum):
    """What the number of a condition counts. `PRESENCE` counts nothing: the subject is there (1), or is not."""

    SECONDS = "seconds"
    PERCENT = "percent"
    NUMBER = "number"
    PRESENCE = "presence"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What can be watched. `title` is a clause; `target`: what a subject is ("queue"), empty where there is only one.
    `page`: the name of the address that shows a subject, which takes it where it can; or with a query, which takes it
    where that ends with `=`.

    `threshold`: what a new rule proposes; the condition holds for a subject whose number is above it. `is_windowed`:
    the number is that of a window of time, which the rule chooses.
    """

    code: str
    title: str
    unit: Unit
    target: str = ""
    threshold: float = 0.0
    is_windowed: bool = False
    page: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """The number of one subject. `target`: what a rule names to watch this one alone, where that is not the subject."""

    subject: str
    value: float
    target: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The numbers of one condition at one moment. What is not among them has none, which is as good as 0; unless
    `is_complete` is false: then nothing is known of it."""

    measures: Sequence[Measure] = ()
    is_complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """There is no reading, and why: a sentence."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One reading as one rule sees it: the subjects above its threshold, with their numbers, and those that are known
    to be below it; None: all others."""

    above: Mapping[str, float] = field(default_factory=dict)
    below: frozenset[str] | None = None

    def is_below(self, subject: str) -> bool:
        return subject not in self.above and (self.below is None or subject in self.below)


def observe(reading: Reading, *, target: str, threshold: float) -> Observation:
    """What a rule for this target, empty for all, sees in a reading."""
    watched = [measure for measure in reading.measures if (target in {"", measure.subject, measure.target})]
    above = {measure.subject: measure.value for measure in watched if measure.value > threshold}
    below = frozenset(measure.subject for measure in watched) - above.keys()
    return Observation(above=above, below=None if reading.is_complete else below)


def written(value: float, *, unit: Unit) -> str:
    """A number as people read it; nothing where there is none to read."""
    if unit is Unit.PRESENCE:
        return ""
    if unit is Unit.SECONDS:
        return duration(value)
    return f"{value:.3g} %" if unit is Unit.PERCENT else f"{value:,.0f}"


MOST_RULES: Final = 500  # of a farm: each is judged every minute, and a page shows them all
LONGEST_NAME: Final = 100
LONGEST_TARGET: Final = 300
MOST_ADDRESSES: Final = 10
LONGEST_S: Final = 7 * 86400
SHORTEST_REPEAT_S: Final = 300  # `judging.GROUP`: nothing is sent more often
SHORTEST_WINDOW_S: Final = 300
LONGEST_WINDOW_S: Final = 86400  # minutes of the roll-up are kept for two days
LONGEST_MUTE_S: Final = 30 * 86400
# Django checks addresses by a longer rule; this keeps out what could add a header or a second recipient.
_ADDRESS: Final = re.compile(r"[^@\s,;<>\"()]{1,64}@[^@\s,;<>\"()]{1,190}")


class Severity(StrEnum):
    WARNING = "warning"
    CRITICAL = "critical"


def check(condition: Condition | None, values: Mapping[str, Any]) -> None:
    """Raise BadRule at the first thing that is wrong with these values of a rule for this condition."""
    if condition is None:
        raise BadRule(field="condition", reason="There is no such condition.")
    name = values["name"]
    if not (name.strip() and name.isprintable() and len(name) <= LONGEST_NAME):
        raise BadRule(field="name", reason=f"It has 1 to {LONGEST_NAME} printable characters.")
    if len(values["target"]) > LONGEST_TARGET or not values["target"].isprintable():
        raise BadRule(field="target", reason=f"It has at most {LONGEST_TARGET} printable characters.")
    _check_threshold(condition, values["threshold"])
    for key, least, most in (
        ("hold_s", 0, LONGEST_S), ("keep_firing_s", 0, LONGEST_S), ("window_s", SHORTEST_WINDOW_S, LONGEST_WINDOW_S),
    ):  # fmt: skip
        _check_seconds(key, values[key], least=least, most=most)
    if values["repeat_s"]:
        _check_seconds("repeat_s", values["repeat_s"], least=SHORTEST_REPEAT_S, most=LONGEST_S)
    addresses(values["mail_to"])


def addresses(text: str) -> list[str]:
    """The addresses in a text, with commas or white space between them, each once. Raises BadRule."""
    items = list(dict.fromkeys(text.replace(",", " ").split()))
    if len(items) > MOST_ADDRESSES:
        raise BadRule(field="mail_to", reason=f"It names more than {MOST_ADDRESSES} addresses.")
    for item in items:
        if not _ADDRESS.fullmatch(item) or not item.isprintable():
            raise BadRule(field="mail_to", reason=f"{item[:100]!r} is no address.")
    return items


def _check_threshold(condition: Condition, value: float) -> None:
    if not math.isfinite(value) or value < 0:
        raise BadRule(field="threshold", reason="It is a number of at least 0.")
    if condition.unit is Unit.PERCENT and value >= 100:
        raise BadRule(field="threshold", reason="It is below 100 percent: more than all is never reached.")


def _check_seconds(field: str, value: int, *, least: int, most: int) -> None:
    if not least <= value <= most:
        raise BadRule(field=field, reason=f"It is from {least} to {most} seconds.")
