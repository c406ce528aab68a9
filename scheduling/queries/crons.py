from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from postgres import statements
from scheduling.domain.schedules import Source
from scheduling.models import Cron

Row = statements.Row


def lock_due(limit: int, *, declared: Sequence[str]) -> list[Row]:
    """Lock crons whose time has come, in the caller's transaction: their names, each with the clock's `now`; those that
    are not `is_ours`, neither made by a person nor among the `declared`, when they are an hour late."""
    return statements.load("scheduling", "due_crons").run({"limit": limit, "declared": declared})


def overdue(*, by: timedelta, declared: Sequence[str]) -> "QuerySet[Cron]":
    """Those of people and the `declared` that should have fired so long ago, the latest first: what names them."""
    ours = Q(source=Source.PERSON) | Q(name__in=declared)
    late = Cron.objects.filter(ours, paused_at=None, retired_at=None, next_at__lt=Now() - by)
    return late.only("name", "source").order_by("next_at")


def unfirable() -> "QuerySet[Cron]":
    """Those that the scheduler paused, because they could not be fired: what names them, and why."""
    paused = Cron.objects.filter(paused_at__isnull=False, retired_at=None, pause_reason__isnull=False)
    return paused.only("name", "source", "pause_reason").order_by("name")


def failing(limit: int) -> list[Row]:
    """Those whose last firing failed: rows of `name`, `source`, `id` of the function, `error`."""
    return statements.load("scheduling", "failing_crons").run({"limit": limit})


def hasten(names: Sequence[str], *, within_s: float) -> dict[str, float]:
    """Bring the next fire time of these forward, if it lies further ahead; in how many seconds each fires."""
    rows = statements.load("scheduling", "hasten").run({"names": list(names), "within_s": within_s})
    return {row.name: row.seconds for row in rows}


def lock(name: str) -> Cron | None:
    return Cron.objects.select_for_update().filter(pk=name).first()


def insert(name: str, **columns: Any) -> bool:
    """A new cron; False: one that another process has just made is left as it is."""
    return Cron.objects.get_or_create(name=name, defaults=columns)[1]


def change(name: str, **columns: Any) -> None:
    Cron.objects.filter(pk=name).update(**columns)


def retire(names: Sequence[str]) -> None:
    """No app declares these any more: they fire no more, and keep their history."""
    Cron.objects.filter(pk__in=names, retired_at=None).update(retired_at=Now())
