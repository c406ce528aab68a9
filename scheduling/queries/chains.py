"""Chains: work on many rows in batches, each a mutation that schedules the next one and returns how many it handled."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Self

from postgres import statements
from scheduling.models import ScheduledFunction


@dataclass(frozen=True, kw_only=True)
class Chain:
    """How far one is. A subclass names its batch by FUNCTION, whose argument `after` is 0 in the first alone.

    `first` and `last` are the ids of its oldest and newest batch, `arguments` those of the first. `matched` is the
    argument of that name: how many rows there were to handle when it began.
    """

    FUNCTION: ClassVar[str]

    first: int
    last: int
    status: str
    error: str | None
    arguments: Mapping[str, Any]
    handled: int
    began_at: datetime
    ended_at: datetime | None

    @classmethod
    def find(cls, first: int) -> Self | None:
        """The chain whose first batch has this id; None when there is none, or its rows are past their retention."""
        row = ScheduledFunction.objects.filter(pk=first, function=cls.FUNCTION, args__after=0).first()
        return None if row is None else cls._of(row)

    @classmethod
    def latest(cls, *, limit: int) -> list[Self]:
        rows = ScheduledFunction.objects.filter(function=cls.FUNCTION, args__after=0).order_by("-pk")
        return [chain for row in rows[:limit] if (chain := cls._of(row)) is not None]

    @property
    def is_over(self) -> bool:
        return self.ended_at is not None

    @property
    def matched(self) -> int:
        return int(self.arguments.get("matched", 0))

    @property
    def until(self) -> int:
        return int(self.arguments["until"])

    @property
    def share(self) -> float:
        return min(self.handled / self.matched, 1.0) if self.matched else 1.0

    @classmethod
    def _of(cls, row: ScheduledFunction) -> Self | None:
        newest = statements.load("scheduling", "chain").run({"first": row.pk, "function": cls.FUNCTION})
        if not newest:
            return None
        [last] = newest
        return cls(
            first=row.pk, last=last.id, status=last.status, error=last.error, arguments=row.args, handled=last.handled,
            began_at=row.created_at, ended_at=last.ended_at,
        )  # fmt: skip
