"""A job's attempts on one scale of time: how long each waited, and how long it ran."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from jobs.domain import charts
from jobs.domain.charts import Bar


class Ended(Protocol):
    number: int
    claimed_at: datetime
    ended_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One attempt: `bars` are the wait before it and its run. Not claimed yet, it has a wait alone."""

    waited_s: float
    ran_s: float | None
    bars: list[Bar]


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """What the job's row says of its latest attempt, or of the wait for the next. `number` counts claims."""

    number: int
    claimed_at: datetime | None
    ended_at: datetime | None
    is_waiting: bool


def spans(attempts: Sequence[Ended], current: Current, *, submitted_at: datetime, now: datetime) -> dict[int, Span]:
    """Each attempt by its number, on the scale from the submission to the job's end, or to now.

    `attempts` are those in the history, the current one not among them unless it is over. Of a job that waits for
    another attempt, the wait has the next number.
    """
    end = current.ended_at or now
    pieces: dict[int, tuple[datetime, datetime, datetime | None]] = {}
    over = {attempt.number: attempt.ended_at for attempt in attempts} | {0: submitted_at}
    for attempt in attempts:
        free_since = _free_since(over, attempt.number, unless_known=attempt.claimed_at)
        pieces[attempt.number] = (free_since, attempt.claimed_at, attempt.ended_at)
    if current.is_waiting:
        pieces[current.number + 1] = (_free_since(over, current.number + 1, unless_known=end), end, None)
    elif current.claimed_at is not None and current.number not in pieces:
        free_since = _free_since(over, current.number, unless_known=current.claimed_at)
        pieces[current.number] = (free_since, current.claimed_at, end)
    return {
        number: _span(*moments, begin=submitted_at.timestamp(), end=end.timestamp())
        for number, moments in pieces.items()
    }


def _free_since(over: dict[int, datetime], number: int, *, unless_known: datetime) -> datetime:
    """When the attempt before this one was over: claims whose answer nobody got are in no history.

    Before the oldest attempt of a history that begins later than the job, that is not known.
    """
    before = max(earlier for earlier in over if earlier < number)
    is_known = before > 0 or number == 1 or len(over) == 1
    return over[before] if is_known else unless_known


def _span(free_since: datetime, claimed_at: datetime, ended_at: datetime | None, *, begin: float, end: float) -> Span:
    bars = [("wait", free_since.timestamp(), claimed_at.timestamp())]
    if ended_at is not None:
        bars.append(("run", claimed_at.timestamp(), ended_at.timestamp()))
    return Span(
        waited_s=max((claimed_at - free_since).total_seconds(), 0.0),
        ran_s=None if ended_at is None else max((ended_at - claimed_at).total_seconds(), 0.0),
        bars=charts.row(bars, begin=begin, end=end),
    )
