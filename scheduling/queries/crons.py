"""Statements about crons."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, QuerySet
from django.db.models.functions import Now

from postgres import statements
from scheduling.domain.schedules import Firing
from scheduling.models import Cron

Row = statements.Row


def lock_due(limit: int) -> list[Row]:
    """Lock crons whose time has come, in the caller's transaction: their names, each with the clock's `now`."""
    return statements.load("scheduling", "due_crons").run({"limit": limit})


def read(name: str) -> Cron:
    return Cron.objects.get(pk=name)


def overdue(*, by: timedelta) -> "QuerySet[Cron]":
    """Those that should have fired so long ago, the latest first, without their arguments."""
    late = Cron.objects.filter(paused_at=None, retired_at=None, next_at__lt=Now() - by)
    return late.defer("args").order_by("next_at")


def unfirable() -> "QuerySet[Cron]":
    """Those that the scheduler paused, because they could not be fired; without their arguments."""
    paused = Cron.objects.filter(paused_at__isnull=False, retired_at=None, pause_reason__isnull=False)
    return paused.defer("args").order_by("name")


def move_on(name: str, *, firing: Firing, skipped: int, has_missed: bool) -> None:
    """Write what a locked cron did and when it fires next; and that it missed a fire time, if it has."""
    Cron.objects.filter(pk=name).update(
        next_at=firing.next_at,
        last_fire_at=firing.fire[-1] if firing.fire else F("last_fire_at"),
        missed_count=F("missed_count") + firing.missed,
        skipped_count=F("skipped_count") + skipped,
        missed_at=Now() if has_missed else F("missed_at"),
    )


def hasten(names: Sequence[str], *, within_s: float) -> None:
    """Bring the next fire time of these forward, if it lies further ahead. Nobody waits for that."""
    statements.load("scheduling", "hasten").post({"names": list(names), "within_s": within_s})


def lock(name: str) -> Cron | None:
    return Cron.objects.select_for_update().filter(pk=name).first()


def lock_all() -> dict[str, Cron]:
    """All crons by name, locked in the order of their names. Without the arguments: one that cannot be read keeps no
    cluster from starting."""
    return {cron.pk: cron for cron in Cron.objects.select_for_update().defer("args").order_by("name")}


def insert(name: str, *, next_at: datetime | None, **columns: Any) -> None:
    """A new cron; one that another process has just made is left as it is."""
    Cron.objects.bulk_create([Cron(name=name, next_at=next_at, **columns)], ignore_conflicts=True)


def change(name: str, **columns: Any) -> None:
    Cron.objects.filter(pk=name).update(**columns)


def retire(names: Sequence[str]) -> None:
    """No app declares these any more: they fire no more, and keep their history."""
    Cron.objects.filter(pk__in=names, retired_at=None).update(retired_at=Now())
