"""What a rule can watch: a number of each of some subjects, and how such numbers are written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

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
