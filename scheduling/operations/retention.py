"""What is kept for how long: apps declare it beside their crons, and one cron deletes what is older."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from scheduling.operations.endings import Failures
from scheduling.operations.functions import action, run_after

BATCHES = 20  # of each in one run: some seconds, so that a cluster that stops need not wait for it
SIZE = 1000
Days = float | Callable[[], float]
_declared: dict[str, tuple[Callable[[int, int], int], int]] = {}


def keep(name: str, rows: "QuerySet[Any]", *, by: str, days: Days = 0, size: int = SIZE) -> None:
    """Declare in an app's `crons.py` how many days these rows are kept from the moment in their column `by` on. So many
    are deleted in a transaction."""
    prune(name, partial(_delete, rows, by, days), size=size)


def prune(name: str, delete: Callable[[int, int], int], *, size: int = SIZE) -> None:
    """The same for what is more than the rows of one model: `delete(limit, skip)` deletes the oldest `limit`, but for
    the first `skip`, which have failed alone, in a transaction of its own; and returns how many."""
    _declared[name] = (delete, size)


@action(timeout=600, idempotent=True, own_writes=True)
def retain(*, names: Sequence[str] = ()) -> dict[str, int]:
    """Delete what is kept no longer, or that of these names; how many of each. After some batches of one the others
    follow, and another run takes the rest. What cannot be deleted stays, and is in the error that it ends with."""
    failures = Failures()
    deleted: dict[str, int] = {}
    for name in names or tuple(_declared):
        delete, size = _declared[name]
        with failures.aside(name):
            deleted[name] = failures.in_batches(delete, name=name, size=size, most=BATCHES)
    whole = 1 if failures.reasons else BATCHES  # batches of a run that has more to do: what fails takes some of it
    if rest := [name for name, done in deleted.items() if done >= _declared[name][1] * whole]:
        run_after(0, retain, names=rest)
    failures.raise_any()
    return {name: done for name, done in deleted.items() if done}


def _delete(rows: "QuerySet[Any]", by: str, days: Days, limit: int, skip: int) -> int:
    age = timedelta(days=days() if callable(days) else days)
    old = rows.filter(**{f"{by}__lt": Now() - age})
    with transaction.atomic():
        ids = list(old.order_by(by, "pk").values_list("pk", flat=True)[skip : skip + limit])
        old.filter(pk__in=ids).delete()
    return len(ids)
