"""What a cron does when its time has come: which fire times become functions, which are only counted."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from scheduling.domain.schedules import Schedule
from scheduling.errors import BadSchedule

# A firing that comes later than this was missed. It is the time within which the work of a dead process comes back.
LATE = timedelta(seconds=15)
MOST_CAUGHT_UP = 1000


class Missed(StrEnum):
    """What becomes of fire times that passed while nothing ran."""

    SKIP = "skip"
    ONCE = "once"
    CATCH_UP = "catch_up"


class Overlap(StrEnum):
    """What becomes of a firing while an earlier one has not ended."""

    SKIP = "skip"
    ALLOW = "allow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How a cron treats missed and overlapping firings. `at_most` is for CATCH_UP."""

    missed: Missed = Missed.ONCE  # a daily report that is 20 s late is late, not nothing
    at_most: int = 1
    overlap: Overlap = Overlap.SKIP

    def __post_init__(self) -> None:
        if not 1 <= self.at_most <= MOST_CAUGHT_UP:
            raise BadSchedule(why=f"at_most is from 1 to {MOST_CAUGHT_UP}, not {self.at_most}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """The fire times to turn into functions, how many were let go, and the next one."""

    fire: tuple[datetime, ...]
    missed: int
    next_at: datetime | None


def decide(schedule: Schedule, *, run_at: datetime, now: datetime, policy: Policy) -> Firing:
    """What to do at `now` for a cron whose next fire time is `due_at`.

    Nothing while `now` lies before it, also when the clock went back: `next_at` only ever grows, so that no fire
    time comes twice.
    """
    if now < run_at:
        return Firing(fire=(), missed=0, next_at=run_at)
    wanted = policy.at_most if policy.missed is Missed.CATCH_UP else 1
    count, last = schedule.latest(start=run_at, end=now, most=wanted)
    if policy.missed is Missed.SKIP:
        last = [moment for moment in last if now - moment <= LATE]
    latest = last[-1] if last else schedule.latest(start=run_at, end=now, most=1)[1][-1]
    return Firing(fire=tuple(last), missed=count - len(last), next_at=schedule.after(latest))
