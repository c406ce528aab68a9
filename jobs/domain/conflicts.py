"""A new job whose unique_key a living job has: which of the two gives way, and when the one that stays runs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final, Self

from jobs.errors import InvalidValue

# The run_at of a job that waits behind another: no claim is as late, and Python and browsers know the moment.
BEHIND: Final = datetime(9000, 1, 1, tzinfo=UTC)
LONGEST_S: Final = 30 * 86400.0


class OnConflict(StrEnum):
    """What becomes of a new job while a living one has its unique_key."""

    REFUSE = "refuse"
    REPLACE = "replace"
    AFTER = "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class Debounce:
    """A job runs once none like it came for `quiet_s`, at the latest `at_most_s` after the first."""

    quiet_s: float
    at_most_s: float

    @classmethod
    def of(cls, times: Any) -> Self:
        """Of `{"quiet": 10, "at_most": 120}`, in seconds. Raises InvalidValue."""
        if not isinstance(times, Mapping) or times.keys() != {"quiet", "at_most"}:
            raise InvalidValue(field="debounce", why='quiet and at_most, such as {"quiet": 10, "at_most": 120}')
        for name, value in times.items():
            if not (type(value) in (int, float) and math.isfinite(value) and 0 < value <= LONGEST_S):
                raise InvalidValue(field="debounce", why=f"{name} is a number of seconds up to 30 days, got {value!r}")
        if times["quiet"] > times["at_most"]:
            raise InvalidValue(field="debounce", why="at_most is no less than quiet")
        return cls(quiet_s=times["quiet"], at_most_s=times["at_most"])

    def run_at(self, *, first: datetime, now: datetime) -> datetime:
        """When it runs if no other comes."""
        return min(now + timedelta(seconds=self.quiet_s), first + timedelta(seconds=self.at_most_s))


def on_conflict(name: Any, *, is_debounced: bool) -> OnConflict | None:
    """What is asked for, None where that is a refusal; a debounced job waits behind the one that runs. Raises
    InvalidValue."""
    names = [one.value for one in OnConflict]
    if name is not None and name not in names:
        raise InvalidValue(field="on_conflict", why=f"one of {', '.join(names)}")
    if is_debounced and name not in {None, OnConflict.AFTER}:
        raise InvalidValue(field="on_conflict", why="with debounce it is after")
    wanted = OnConflict.AFTER if is_debounced else OnConflict(name or OnConflict.REFUSE)
    return None if wanted is OnConflict.REFUSE else wanted
