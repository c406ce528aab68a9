"""Ranges of the index of waiting jobs: priorities of a queue, or of somebody's jobs in it, by due time."""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

LOWEST, HIGHEST = -32767, 32767  # priorities: whatever the column can hold
EVER: Final = datetime(1, 1, 1, tzinfo=UTC)  # before all that can be due
_AGES_S: Final = 1000 * 86_400.0  # a slice as wide as this reaches back for ever


class Head(NamedTuple):
    """Where an index begins: with all jobs of a queue, or with those of them that are one person's or one group's."""

    queue: str
    owner_id: int | None = None
    group_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRange:
    """Priorities `low` to `high` of a queue, or of somebody's jobs in it, from `since` on; a slice ends at `until`."""

    queue: str
    owner_id: int | None = None
    group_id: int | None = None
    low: int
    high: int
    since: datetime
    until: datetime | None = None


class Slice(NamedTuple):
    """What was due from `since` on, and before `until`."""

    since: datetime
    until: datetime

    @classmethod
    def before(cls, until: datetime, *, width_s: float) -> "Slice":
        """So many seconds of due times that end at a moment; all of them if that is years."""
        is_all = width_s >= _AGES_S or (until - EVER).total_seconds() <= _AGES_S
        return cls(EVER if is_all else until - timedelta(seconds=width_s), until)


def behind(head: Head, since: Mapping[int, datetime], piece: Slice | None = None) -> Iterable[IndexRange]:
    """Each priority that has a watermark from there on, and what lies between them as a whole.

    With a slice, also what of it lies before the watermarks.
    """
    of = functools.partial(IndexRange, **head._asdict())
    above = HIGHEST + 1
    for priority in sorted(since, reverse=True):
        if priority + 1 < above:
            yield of(low=priority + 1, high=above - 1, since=EVER)
        if piece is not None and piece.since < since[priority]:
            yield of(low=priority, high=priority, since=piece.since, until=min(piece.until, since[priority]))
        yield of(low=priority, high=priority, since=since[priority])
        above = priority
    if above > LOWEST:
        yield of(low=LOWEST, high=above - 1, since=EVER)
