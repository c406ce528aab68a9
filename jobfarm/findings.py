"""What may be wrong with a farm, declared once, and what a check of it finds.

One declaration gives what `manage.py doctor`, the overview and /health/ready find, what people's alert rules watch, the
gauge of /metrics, and the rule of deploy/prometheus/alerts.yml.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Generic, Literal, TypeVar

from prometheus_client.core import GaugeMetricFamily, Metric

from alerts import registry
from alerts.domain import rules as watched
from alerts.domain.rules import Measure, Reading, Unit, Unknown
from jobs.domain import presence
from jobs.queries.fleet import processes

F = TypeVar("F")
T = TypeVar("T")
Numbers = float | Mapping[str, float] | Mapping[tuple[str, ...], float]


class Level(IntEnum):
    """How bad it is. `STARTING`: it would be bad later; the farm has only just been started."""

    FINE = 0
    STARTING = 1
    WARNING = 2
    ERROR = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: a sentence, what to do if it is not fine, and the name of the page on which that is done
    (`page_of` is what its address holds).

    /health/ready shows strangers the sentences of its checks and never a remedy: hosts are named in remedies alone.
    """

    sentence: str
    remedy: str = ""
    level: Level = Level.WARNING
    page: str = ""
    page_of: str = ""


Check = Callable[[], Iterator[Finding]]


class Remembered(Generic[T]):
    """A result that this process keeps for some seconds, for all callers."""

    def __init__(self, compute: Callable[[], T], *, for_s: float) -> None:
        self._compute, self._for_s = compute, for_s
        self._lock = threading.Lock()
        self._until = 0.0
        self._answer: T | None = None

    def __call__(self) -> T:
        with self._lock:
            if self._answer is None or time.monotonic() >= self._until:
                self._answer = self._compute()
                self._until = time.monotonic() + self._for_s
            return self._answer

    def forget(self) -> None:
        self._until = 0.0


def is_starting() -> bool:
    """Whether the farm has just been started, so that what is missing may well be on its way."""
    return presence.is_starting(processes())


def absence() -> Level:
    """How bad it is that a worker is missing: not at all while the farm starts."""
    return Level.STARTING if is_starting() else Level.WARNING


@dataclass(frozen=True)
class Gauge(Generic[F]):
    """A number of /metrics: what `read` makes of an area's facts; one of each subject if it has labels."""

    name: str
    about: str
    read: Callable[[F], Numbers]
    labels: Sequence[str] = ()

    def family(self, facts: F) -> Metric:
        family = GaugeMetricFamily(self.name, self.about, labels=self.labels)
        numbers = self.read(facts)
        for subject, number in (numbers if isinstance(numbers, Mapping) else {(): numbers}).items():
            family.add_metric([subject] if isinstance(subject, str) else subject, number)
        return family


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of Prometheus: it fires when `expr` has held for so long ("5m"). ABOVE in it is the threshold of its
    condition; a mere metric is to be above that. *Critical* is worth waking somebody."""

    name: str
    expr: str
    summary: str
    severity: Literal["critical", "warning"] = "warning"
    lasts: str = ""

    def at(self, above: float) -> "Rule":
        whole = self.expr if " " in self.expr else f"max({self.expr}) > ABOVE"
        return replace(self, expr=whole.replace("ABOVE", f"{above:g}"))


@dataclass(frozen=True, kw_only=True)
class Condition(Generic[F]):
    """It holds for a subject whose number, by `read`, is above a threshold.

    `sentence` and `remedy` are a finding when a number is above `noticed`, of this `level`. `title` and `unit` make it
    one that people's rules watch, which propose `above`; `target` and `page` are those of alerts.domain.rules.
    `is_absence`: something is missing, and a farm that starts says nothing of what is on its way.
    """

    code: str
    read: Callable[[F], float | Mapping[str, float]]
    noticed: float = 0.0
    level: Level = Level.WARNING
    sentence: Callable[[F], str] | None = None
    remedy: str | Callable[[F], str] = ""
    title: str = ""
    unit: Unit | None = None
    above: float = 0.0
    target: str = ""
    page: str = ""
    is_absence: bool = False
    rule: Rule | None = None

    def findings(self, facts: F) -> Iterator[Finding]:
        if self.sentence and any(number > self.noticed for number in self._numbers(facts).values()):
            yield Finding(
                self.sentence(facts),
                self.remedy if isinstance(self.remedy, str) else self.remedy(facts),
                level=absence() if self.is_absence else self.level,
            )

    def reading(self, facts: F) -> Reading | Unknown:
        numbers = self._numbers(facts)
        if self.is_absence and any(numbers.values()) and is_starting():
            return Unknown(reason="The farm has just been started.")
        return Reading(measures=[Measure(subject=subject, value=number) for subject, number in numbers.items()])

    def _numbers(self, facts: F) -> Mapping[str, float]:
        numbers = self.read(facts)
        return numbers if isinstance(numbers, Mapping) else {"": numbers}


@dataclass(frozen=True, kw_only=True, eq=False)
class Area(Generic[F]):
    """What is read together, and what is shown and watched of it. A check: called, it returns what it finds. `others`:
    findings that nothing else shows or watches."""

    name: str
    read: Callable[[], F]
    gauges: Sequence[Gauge[F]] = ()
    conditions: Sequence[Condition[F]] = ()
    others: Callable[[F], Iterable[Finding]] = lambda _: ()

    def __call__(self) -> Iterator[Finding]:
        facts = self.read()
        yield from self.others(facts)
        for condition in self.conditions:
            yield from condition.findings(facts)

    def families(self) -> Iterator[Metric]:
        facts = self.read()
        return (gauge.family(facts) for gauge in self.gauges)

    def rules(self) -> list[Rule]:
        return [condition.rule.at(condition.above) for condition in self.conditions if condition.rule]

    def register(self) -> None:
        for condition in self.conditions:
            if condition.unit is not None:
                self._register(condition, condition.unit)

    def _register(self, condition: Condition[F], unit: Unit) -> None:
        of_alerts = watched.Condition(
            code=condition.code, title=condition.title, unit=unit, target=condition.target, threshold=condition.above,
            page=condition.page,
        )  # fmt: skip
        registry.register(of_alerts)(lambda _: condition.reading(self.read()))
