"""What pages show of functions and crons, and how far a chain of batches is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Self

from django.db.models import OuterRef, QuerySet, Subquery, TextField
from django.db.models.functions import Cast

from postgres import statements
from scheduling.domain.calls import Status
from scheduling.models import Cron, Due, ScheduledFunction

MOST_LIVING = 5_000  # among so many that wait or run a page may choose


def functions(
    *, status: str = "", function: str = "", cron: str = "", before: int = 0
) -> "QuerySet[ScheduledFunction]":
    """Scheduled functions, newest first, without the columns that only their own page shows."""
    filters = {"status": status, "function": function, "cron_id": cron, "pk__lt": before}
    rows = ScheduledFunction.objects.filter(**{column: value for column, value in filters.items() if value})
    return rows.defer("args", "result", "traceback", "error").order_by("-pk")


def names() -> list[str]:
    """The functions that have rows, by name: jumped from one to the next in their index."""
    return [row.function for row in statements.load("scheduling", "names").run()]


def living_ids(status: str) -> list[int] | None:
    """All that wait, or all that run, by the small indexes of those; None if they are too many to choose from."""
    waiting = Due.objects.order_by("function_id").values_list("function_id", flat=True)
    running = ScheduledFunction.objects.filter(status=Status.IN_PROGRESS).values_list("pk", flat=True)
    ids = list((waiting if status == Status.PENDING else running.order_by("cluster_id"))[: MOST_LIVING + 1])
    return ids if len(ids) <= MOST_LIVING else None


def firings(cron: str, *, limit: int = 10) -> Sequence[ScheduledFunction]:
    """What a cron fired last, the newest first: by its unique index, however many others were scheduled since."""
    rows = ScheduledFunction.objects.filter(cron_id=cron, attempt=1).only("pk", "fire_at", "status")
    return list(rows.order_by("-fire_at")[:limit])


def function(pk: int) -> ScheduledFunction | None:
    """With its JSON as text, `stored_args` and `stored_result`: it may be what cannot be read."""
    texts = {f"stored_{column}": Cast(column, TextField()) for column in ("args", "result")}
    return ScheduledFunction.objects.defer("args", "result").annotate(**texts).filter(pk=pk).first()


def queued(pk: int) -> Due | None:
    return Due.objects.filter(pk=pk).first()


def descendants(pk: int, *, limit: int = 50) -> Sequence[ScheduledFunction]:
    rows = ScheduledFunction.objects.filter(parent_id=pk).defer("args", "result", "traceback")
    return list(rows.order_by("-pk")[:limit])


def firing_crons() -> "QuerySet[Cron]":
    return Cron.objects.filter(retired_at__isnull=True, paused_at__isnull=True)


def last_firings() -> list[ScheduledFunction]:
    """Of each cron that fires the newest firing, by its unique index."""
    firing = ScheduledFunction.objects.filter(cron_id=OuterRef("pk"), attempt=1).order_by("-fire_at")
    newest = firing_crons().annotate(newest=Subquery(firing.values("pk")[:1])).values_list("newest", flat=True)
    return list(ScheduledFunction.objects.filter(pk__in=list(newest)).order_by("cron_id"))


def crons() -> "QuerySet[Cron]":
    """All crons, those that nobody declares any more last; with what became of the last firing: `outcome` is its
    state, `outcome_of` its id."""
    firing = ScheduledFunction.objects.filter(cron_id=OuterRef("pk"), attempt=1).order_by("-fire_at")
    return Cron.objects.annotate(
        outcome=Subquery(firing.values("status")[:1]), outcome_of=Subquery(firing.values("pk")[:1])
    ).order_by("-retired_at", "name")


def cron(name: str) -> Cron | None:
    return Cron.objects.filter(pk=name).first()


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
