"""Which processes of the farm are there, and since when it is reachable for its workers. Durations in seconds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

EVERY_S: Final = 4.0  # how often a process reports; with the three seconds a janitor sleeps, at most 7 s lie between
SILENT_S: Final = 15.0  # two reports in a row are missing, and the third is late
GONE_S: Final = 60.0  # nobody takes so long to come back: it was killed
STARTING_S: Final = 20.0  # from the start of a process until its neighbours are there: 3 s, more on a busy machine
RESTARTED_S: Final = 15.0  # from the end of one that was stopped until the next is there
_LONGEST_BEAT_S: Final = 5.0  # an idle process queries the database about once in 5 s
_SHORTEST_BEAT_S: Final = 0.25
_BEATS_A_GAP: Final = 4


class Part(StrEnum):
    """What a process does for the farm. Clusters report to the scheduler."""

    WEB = "web"
    JANITOR = "janitor"


class State(StrEnum):
    """`silent`: it does not report and did not say that it ends, so it is frozen or was killed. `gone`: for so long
    that it will not come back, or another took its place."""

    PRESENT = "present"
    SILENT = "silent"
    ENDED = "ended"
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process: how long ago it began, and how long ago it was heard of last. `has_ended`: that was its farewell;
    `is_replaced`: another began in its place; `errors`: what it logged as such lately."""

    part: str
    host: str
    pid: int
    started_at: datetime
    age_s: float
    silent_s: float
    has_ended: bool = False
    is_replaced: bool = False
    errors: tuple[str, ...] = ()

    @property
    def state(self) -> State:
        if self.has_ended:
            return State.ENDED
        if self.silent_s <= SILENT_S:
            return State.PRESENT
        return State.SILENT if self.silent_s <= GONE_S and not self.is_replaced else State.GONE


def with_replaced(processes: Sequence[Process]) -> list[Process]:
    """The same, those marked that were replaced: each that is there took the place of one of its part and machine, of
    which nothing was heard after it began, and of several the one that was heard of last; and so did that one."""
    present = [process for process in processes if process.state is State.PRESENT]
    left = [process for process in processes if process.state is not State.PRESENT]
    for new in sorted(present, key=lambda process: -process.age_s):
        _take_before(new, left)
    return [replace(each, is_replaced=each.state is State.SILENT and each not in left) for each in processes]


def _take_before(new: Process, left: list[Process]) -> None:
    where = (new.part, new.host)
    before = [old for old in left if (old.part, old.host) == where and old.silent_s > new.age_s]
    if before:
        old = min(before, key=lambda each: each.silent_s)
        left.remove(old)
        _take_before(old, left)


def of(processes: Iterable[Process], part: Part, state: State) -> list[Process]:
    """Those of this part that stand so, in their order."""
    return [process for process in processes if process.part == part and process.state is state]


def is_starting(processes: Sequence[Process]) -> bool:
    """Whether the farm has just been started: some of it is there, and all of that since a moment ago."""
    ages = [process.age_s for process in processes if process.state is State.PRESENT]
    return bool(ages) and max(ages) < STARTING_S


def is_expected(processes: Sequence[Process], part: Part) -> bool:
    """Whether one of this part, of which none is there, may well be on its way: the farm starts, or one of them has
    just ended in good order, as in a restart."""
    ended = of(processes, part, State.ENDED)
    return is_starting(processes) or any(process.silent_s < RESTARTED_S for process in ended)


def beat_s(lease_s: float) -> float:
    """How often a web process notes that it is reachable, in seconds."""
    return min(_LONGEST_BEAT_S, max(_SHORTEST_BEAT_S, lease_s / 12))


def gap_s(lease_s: float) -> float:
    """After so many seconds without a note the farm counts as unreachable.

    A shorter absence goes unnoticed. It does no harm: a worker that reports three times a lease has two thirds of it
    left, and this is a third at most.
    """
    return max(lease_s / 4, _BEATS_A_GAP * beat_s(lease_s))


def grace_s(heartbeat_s: float) -> float:
    """How long after an absence the farm takes no lease back: one heartbeat interval, and a margin for its way."""
    return heartbeat_s + min(5.0, heartbeat_s)
