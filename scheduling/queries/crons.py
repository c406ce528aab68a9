from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.db.models import Case, Q, QuerySet, When
from django.db.models.functions import Now

from postgres import statements
from scheduling.domain.schedules import Source
from scheduling.models import Cron

Row = statements.Row


def lock_due(limit: int, *, declared: Sequence[str]) -> list[Row]:
    """Lock crons of people and the `declared` whose time has come, in the caller's transaction: their names, each with
    the clock's `now`."""
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


def of_other_versions(*, declared: Sequence[str], late: timedelta) -> "QuerySet[Cron]":
    """Of code: those of the `declared` that are retired, and others that nobody has fired for so long."""
    is_left = ~Q(name__in=declared) & Q(retired_at=None, next_at__lt=Now() - late)
    of_code = Cron.objects.exclude(source=Source.PERSON)
    return of_code.filter(Q(name__in=declared, retired_at__isnull=False) | is_left)


def take_back(names: Sequence[str]) -> None:
    """These are declared after all: what they missed meanwhile counts as ever. One that is paused is late from now on,
    so that who does not declare it leaves it alone for a while."""
    next_at = Case(When(paused_at=None, then="next_at"), default=Now())
    Cron.objects.filter(pk__in=names).update(retired_at=None, next_at=next_at)
