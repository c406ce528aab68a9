"""What pages read."""

from collections.abc import Sequence

from django.db.models import OuterRef, QuerySet, Subquery

from postgres import statements
from scheduling.models import Cluster, Cron, ScheduledFunction

COUNT_LIMIT = 1000


def functions(
    *, state: str = "", function: str = "", cron: str = "", before: int | None = None
) -> "QuerySet[ScheduledFunction]":
    """Scheduled functions, newest first, without the columns that only their own page shows."""
    wanted = {"state": state, "function": function, "cron_id": cron}
    found = ScheduledFunction.objects.filter(**{column: value for column, value in wanted.items() if value})
    if before is not None:
        found = found.filter(pk__lt=before)
    return found.defer("args", "result", "traceback", "error").order_by("-pk")


def names() -> list[str]:
    """The functions that have rows, by name: jumped from one to the next in their index."""
    return [row.function for row in statements.load("scheduling", "names").run()]


def function(pk: int) -> ScheduledFunction | None:
    """One scheduled function with what it came from."""
    return (
        ScheduledFunction.objects.select_related("parent", "retry_of", "run_again_of", "cron")
        .filter(pk=pk)
        .first()
    )


def next_try(pk: int) -> int | None:
    """The try that followed this one."""
    return ScheduledFunction.objects.filter(retry_of_id=pk).values_list("pk", flat=True).first()


def descendants(pk: int, *, limit: int = 50) -> Sequence[ScheduledFunction]:
    """What it scheduled itself, the newest first."""
    return list(
        ScheduledFunction.objects.filter(parent_id=pk)
        .defer("args", "result", "traceback")
        .order_by("-pk")[:limit]
    )


def crons() -> "QuerySet[Cron]":
    """All crons, those that nobody declares any more last; with what became of the last firing: `outcome` is its
    state, `outcome_of` its id."""
    firing = ScheduledFunction.objects.filter(cron_id=OuterRef("pk"), attempt=1).order_by("-fire_at")
    return Cron.objects.annotate(
        outcome=Subquery(firing.values("state")[:1]), outcome_of=Subquery(firing.values("pk")[:1])
    ).order_by("-retired_at", "name")


def cron(name: str) -> Cron | None:
    """One cron."""
    return Cron.objects.filter(pk=name).first()


def clusters() -> "QuerySet[Cluster]":
    """Clusters that live or lived lately, the youngest first."""
    return Cluster.objects.order_by("-started_at")
