"""Statements about scheduled functions and their queue. Fences are in the WHERE clauses; callers count the rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from postgres import statements
from scheduling.domain.states import LIVE, Kind, State
from scheduling.models import Due, ScheduledFunction

Row = statements.Row


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFunction:
    """One row to insert. Due at `due_at`, or `delay_s` seconds from the moment of the insert. `args` is JSON text."""

    function: str
    kind: Kind
    args: str
    delay_s: float = 0.0
    due_at: datetime | None = None
    state: State = State.PENDING
    queue: str = "default"
    priority: int = 0
    task_backend: str | None = None
    parent: int | None = None
    retry_of: int | None = None
    run_again_of: int | None = None
    attempt: int = 1
    cron: str | None = None
    fire_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """One function that was handed out: where its two rows lie, and how often it was handed out in vain."""

    id: int
    due_place: str
    place: str | None
    deliveries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds a hand-out: a cluster's boot id, and the process in it."""

    boot: UUID
    ran_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ended: `result` as JSON text, or what went wrong."""

    state: State
    result: str | None = None
    error: str | None = None
    error_class: str | None = None
    traceback: str | None = None


_COLUMNS = tuple(NewFunction.__dataclass_fields__)


def schedule(new: Sequence[NewFunction]) -> list[ScheduledFunction]:
    """Insert rows; those that fire a cron for a fire time that was fired already are left out."""
    rows = statements.load("scheduling", "schedule").run(
        {column: [getattr(row, column) for row in new] for column in _COLUMNS}
    )
    return [_instance(row) for row in rows]


def notify(kinds: Iterable[str]) -> None:
    """Wake the clusters that listen for these words, without waiting for it."""
    statements.load("scheduling", "notify").post({"kinds": sorted(kinds)})


def parent_state(parent: int) -> State | None:
    """The state of a running action, held still until the caller's transaction ends; None if it is gone."""
    rows = statements.load("scheduling", "parent_state").run({"id": parent})
    return State(rows[0].state) if rows else None


def hand_out(
    kind: Kind, *, boot: UUID, limit: int, lease_s: float, queues: Sequence[str] | None = None
) -> list[Handed]:
    """Hand out up to `limit` due functions of a kind, the most urgent first."""
    given = {"kind": kind.value, "boot": boot, "limit": limit, "lease_s": lease_s}
    rows = statements.load("scheduling", "hand_out").run(given | {"queues": _some(queues)})
    return [
        Handed(id=row.id, due_place=row.due_place, place=row.place, deliveries=row.deliveries) for row in rows
    ]


def give_back(handed: Sequence[Handed], *, boot: UUID, delay_s: float = 0.0) -> int:
    """Make hand-outs due again, now or in a while; how many of them were still as we know them."""
    given = {"due_places": [h.due_place for h in handed], "ids": [h.id for h in handed]}
    return len(
        statements.load("scheduling", "give_back").run(given | {"boot": boot, "delay_s": float(delay_s)})
    )


def release(boot: UUID, *, lease_s: float) -> int:
    """Make everything due again that a dead cluster had in its hands; how many that were."""
    return len(statements.load("scheduling", "release").run({"boot": boot, "lease_s": lease_s}))


def take(handed: Handed) -> Row | None:
    """Take a mutation, in the caller's serializable transaction; None if it is not ours to run any more."""
    given = {"id": handed.id, "due_place": handed.due_place, "place": handed.place}
    rows = statements.load("scheduling", "take").run(given)
    return rows[0] if rows else None


def succeed(handed: Handed, *, by: Holder, result: str | None) -> bool:
    """Write the success of a mutation that was taken in this transaction; False if its row is not pending."""
    given = {"id": handed.id, "place": handed.place, "result": result}
    return bool(statements.load("scheduling", "succeed").run(given | _who(by)))


def fail_pending(function_id: int, *, by: Holder, ending: Ending, elapsed_s: float | None) -> bool:
    """Write the failure of a function that still stands in the queue and began so long ago; False if it does not."""
    given = {"id": function_id, "elapsed_s": elapsed_s, **_error(ending)}
    return bool(statements.load("scheduling", "fail_pending").run(given | _who(by)))


def start(function_id: int, *, by: Holder) -> ScheduledFunction | None:
    """Start an action; None if it is not ours to start."""
    rows = statements.load("scheduling", "start").run({"id": function_id} | _who(by))
    return _instance(rows[0]) if rows else None


def end_action(function_id: int, *, by: Holder, ending: Ending) -> ScheduledFunction | None:
    """Write how an action ended; None if that is not ours to say any more."""
    given = {"id": function_id, "state": ending.state.value, "result": ending.result, **_error(ending)}
    rows = statements.load("scheduling", "end_action").run(given | _who(by))
    return _instance(rows[0]) if rows else None


def give_up(boot: UUID, *, ran_by: str | None, ending: Ending) -> list[ScheduledFunction]:
    """End running actions of a dead cluster, or of its process `ran_by`, as unknown."""
    given = {"boot": boot, "ran_by": ran_by, "error": ending.error, "error_class": ending.error_class}
    return [_instance(row) for row in statements.load("scheduling", "give_up").run(given)]


def overdue(kind: Kind, *, late_s: float, queues: Sequence[str] | None = None) -> bool:
    """Whether something is that late, and nobody works on it."""
    given = {"kind": kind.value, "late_s": late_s, "queues": _some(queues)}
    return bool(statements.load("scheduling", "overdue").run(given))


def next_wake_s(kind: Kind, *, queues: Sequence[str] | None = None) -> float | None:
    """Seconds until something is due or a cron fires; None if nothing is ahead."""
    [row] = statements.load("scheduling", "next_wake").run({"kind": kind.value, "queues": _some(queues)})
    return None if row.seconds is None else float(row.seconds)


def unqueue(function_id: int) -> bool:
    """Take a function out of the queue unless somebody has its row locked; whether that was done."""
    with transaction.atomic():
        waiting = Due.objects.select_for_update(skip_locked=True).filter(pk=function_id)
        return bool(waiting) and bool(Due.objects.filter(pk=function_id).delete()[0])


def is_queued(function_id: int) -> bool:
    """Whether it stands in the queue."""
    return Due.objects.filter(pk=function_id).exists()


def cancel(function_id: int, *, state: State) -> bool:
    """End a function as canceled if it is in this state."""
    changed = ScheduledFunction.objects.filter(pk=function_id, state=state).update(
        state=State.CANCELED, ended_at=Now()
    )
    return bool(changed)


def find(function_id: int) -> ScheduledFunction | None:
    """The row as it is now."""
    return ScheduledFunction.objects.filter(pk=function_id).first()


def retry_of(function_id: int) -> int | None:
    """The try that follows this one."""
    return ScheduledFunction.objects.filter(retry_of_id=function_id).values_list("pk", flat=True).first()


def is_firing_live(cron: str) -> bool:
    """Whether a firing of this cron, or a later try of one, has not ended."""
    return ScheduledFunction.objects.filter(cron_id=cron, state__in=sorted(LIVE)).exists()


def retain(*, age_s: float, limit: int) -> int:
    """Delete up to `limit` functions that ended longer ago; how many."""
    with transaction.atomic():
        return len(statements.load("scheduling", "retain").run({"age_s": age_s, "limit": limit}))


def _instance(row: Row) -> ScheduledFunction:
    # In the order of the model's fields, which is not that of the table's columns.
    names = [field.attname for field in ScheduledFunction._meta.concrete_fields]  # noqa: SLF001
    return ScheduledFunction.from_db("default", names, [getattr(row, name) for name in names])


def _some(queues: Sequence[str] | None) -> list[str] | None:
    return None if queues is None else list(queues)


def _who(by: Holder) -> dict[str, Any]:
    return {"boot": by.boot, "ran_by": by.ran_by}


def _error(ending: Ending) -> dict[str, Any]:
    return {"error": ending.error, "error_class": ending.error_class, "traceback": ending.traceback}
