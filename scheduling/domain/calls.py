"""What a scheduled function is, how it stands (docs/scheduling.md has the table of moves), and what a call of it says
beside its name: its arguments, checked when they are given and not when it runs, its moment, its queue, its priority,
and how often an action is tried."""

import inspect
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeAlias

from core.backoff import Backoff
from core.refusal import CancelVerdict
from core.values import dumps
from scheduling.errors import BadArguments, BadMoment, BadQueue, NotAFunction, NotJson


class Status(StrEnum):
    """Where a scheduled function stands. The values are what the database and the pages say."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    SUCCESS = "success"
    FAILED = "failed"
    CANCELED = "canceled"
    UNKNOWN = "unknown"


LIVE = frozenset({Status.PENDING, Status.IN_PROGRESS})
ENDED = frozenset(Status) - LIVE


class Kind(StrEnum):
    MUTATION = "mutation"
    ACTION = "action"


def cancel_verdict(status: Status, *, attempt: int) -> CancelVerdict:
    """What canceling a function in this state comes to. `attempt` is 1 for the first try."""
    if status is Status.PENDING:
        return CancelVerdict.BEFORE_START if attempt == 1 else CancelVerdict.BEFORE_RETRY
    return CancelVerdict.WHILE_RUNNING if status is Status.IN_PROGRESS else CancelVerdict.TOO_LATE


FARTHEST = timedelta(days=5 * 365)  # reference: the built-in scheduler of the original takes five years
LONGEST_QUEUE = 100
MOST_PRIORITY = 100
MOST_ATTEMPTS = 32_767  # smallint: the next was a line in the log
DEFAULT_QUEUE = "default"
RESERVED = ("queue", "priority")  # what `run_after` and `run_at` take besides a function's own arguments
# What JSON can say and gives back as it was; a tuple comes back as a list.
Json: TypeAlias = str | float | bool | Sequence["Json"] | Mapping[str, "Json"] | None
_BY_NAME = {inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD}


def delay(value: timedelta | float) -> timedelta:
    """`value` (a timedelta, or seconds) as a timedelta. Raises BadMoment unless it is finite, from 0 to five years."""
    if isinstance(value, bool) or not isinstance(value, timedelta | int | float):
        raise BadMoment(why=f"a delay is a timedelta or a number of seconds, not {type(value).__name__}")
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if not 0 <= seconds <= FARTHEST.total_seconds():  # a NaN neither
        raise BadMoment(why=f"a delay is from 0 to five years, and this is {max(min(seconds, 1e300), -1e300):g} s")
    return value if isinstance(value, timedelta) else timedelta(seconds=seconds)


def moment(value: datetime, *, now: datetime) -> datetime:
    """`value`, also if it has passed. Raises BadMoment unless it is aware and within five years of `now`."""
    if not isinstance(value, datetime):
        raise BadMoment(why=f"a moment is a datetime, not {type(value).__name__}")
    if value.utcoffset() is None:
        raise BadMoment(why=f"{value} has no time zone: a moment must be aware")
    if abs(value - now) > FARTHEST:
        raise BadMoment(why=f"{value} is more than five years away")
    return value


def queue(value: Any) -> str:
    if not isinstance(value, str) or not (0 < len(value) <= LONGEST_QUEUE) or not value.isprintable():
        raise BadQueue(why=f"a queue has a printable name of 1 to {LONGEST_QUEUE} characters, not {value!r}")
    return value


def priority(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > MOST_PRIORITY:
        raise BadQueue(why=f"a priority is a whole number from -{MOST_PRIORITY} to {MOST_PRIORITY}, not {value!r}")
    return value


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often an action is tried, and how long it waits in between; seconds throughout.

    After failure number n it waits `base**n`, or `first * base**(n - 1)` where `first` says another beginning, and
    up to `jitter` times that longer; at most `cap`. By default 2 to 3 s, then 4 to 6, 8 to 12, 16 to 24.
    `max_attempts` counts the first one too. Raises ValueError for numbers that make no sense.
    """

    max_attempts: int = 5
    base: float = 2.0
    first: float | None = None
    cap: float = 3600.0
    jitter: float = 0.5

    def __post_init__(self) -> None:
        if not 1 <= self.max_attempts <= MOST_ATTEMPTS:
            raise ValueError(f"max_attempts must be from 1 to {MOST_ATTEMPTS}, not {self.max_attempts}")
        self._backoff()

    def delay_s(self, failures: int, *, rng: random.Random) -> float:
        """Seconds to wait after failure number `failures` (1 is the first)."""
        return self._backoff().delay_s(failures, rng=rng)

    def _backoff(self) -> Backoff:
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"a retry needs 0 <= jitter <= 1, not {self.jitter}")
        first = self.base if self.first is None else self.first
        return Backoff(first_s=first, base=self.base, cap_s=self.cap, jitter=(1, 1 + self.jitter))


def delay_before_next_s(
    retry: Retry | None, *, attempt: int, known: bool, idempotent: bool, rng: random.Random
) -> float | None:
    """Seconds until the next try after attempt number `attempt` ended badly; None if there is none.

    `known` says that it failed, and is not merely unheard of: an action of unknown outcome may have done its work,
    so it is retried only if it was declared idempotent.
    """
    if retry is None or attempt >= retry.max_attempts or not (known or idempotent):
        return None
    return retry.delay_s(attempt, rng=rng)
