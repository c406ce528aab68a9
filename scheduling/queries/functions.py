"""Statements about scheduled functions, their queue, and the clusters that run them. Fences are in the WHERE clauses;
callers count the rows."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from postgres import arrays, statements
from scheduling.domain.calls import Kind, Status
from scheduling.models import RESTARTS, Cluster, Due, ScheduledFunction

Row = statements.Row

# Of what is dispatched a quarter may be new while a backlog of the same priority is behind: what became due in these
# seconds (a row that is done stays in the index for as long as a long transaction runs, and these are walked).
FRESH = 0.25
FRESH_S = 3.0
BEHIND_S = 0.1  # what runs within this is in its order
LOOKBACK_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFunction:
    """One row to insert. Due at `run_at`, or `delay_s` seconds from the moment of the insert. `args` is JSON text."""

    function: str
    kind: Kind
    args: str
    delay_s: float = 0.0
    run_at: datetime | None = None
    status: Status = Status.PENDING
    queue: str = "default"
    priority: int = 0
    task_backend: str | None = None
    parent: int | None = None
    retry_of: int | None = None
    run_again_of: int | None = None
    attempt: int = 1
    cron: str | None = None
    fire_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One due function that is given to a worker: where its two rows lie, and what its runs so far came to."""

    id: int
    due_pointer: str
    row_pointer: str | None
    deaths: int = 0
    collisions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """The functions of one kind, queue and priority, in the order in which they are due. What lies before `since_at`
    (None: nothing) and `since_id` is known to be done."""

    queue: str
    priority: int
    since_at: datetime | None = None
    since_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Which of all clusters asks: number `rank`, from 0, of so many `clusters`."""

    rank: int = 0
    clusters: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    cluster_id: UUID
    ran_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ended: `result` as JSON text, or what went wrong. `raised` is not stored."""

    status: Status
    result: str | None = None
    error: str | None = None
    error_class: str | None = None
    traceback: str | None = None
    raised: BaseException | None = None


_COLUMNS = tuple(NewFunction.__dataclass_fields__)


def schedule(new: Sequence[NewFunction]) -> list[ScheduledFunction]:
    """Insert rows; those that fire a cron for a fire time that was fired already are left out."""
    rows = statements.load("scheduling", "schedule").run(
        {column: arrays.literal(getattr(row, column) for row in new) for column in _COLUMNS}
    )
    return [_instance(row) for row in rows]


def notify(kinds: Iterable[str]) -> None:
    """Wake the clusters that listen for these words, without waiting for it."""
    statements.load("scheduling", "notify").post({"kinds": list(kinds)})


def parent_status(parent: int) -> Status | None:
    rows = statements.load("scheduling", "parent_status").run({"id": parent})
    return Status(rows[0].status) if rows else None


def lanes(kind: Kind, *, queues: Sequence[str] | None = None) -> list[Lane]:
    """The lanes that have rows, due or not; the highest priority first."""
    rows = statements.load("scheduling", "lanes").run({"kind": kind.value, "queues": _some(queues)})
    return [Lane(queue=row.queue, priority=row.priority) for row in rows]


def dispatch(
    kind: Kind, lanes: Sequence[Lane], *, limit: int, excluded: Collection[int] = (), share: Share = Share()
) -> tuple[list[Dispatch], list[Lane]]:
    """Up to `limit` due functions of these lanes, the most urgent first; and the lanes they are of, each from the first
    function that is left in it. Writes nothing: any number may look at once, and who starts a function runs it."""
    params = {"kind": kind.value, "limit": limit, "fresh": limit * FRESH, "excluded": list(excluded)} | _of(lanes)
    params |= {"since_at": [lane.since_at for lane in lanes], "since_id": [lane.since_id for lane in lanes]}
    params |= asdict(share) | {"fresh_s": FRESH_S, "behind_s": BEHIND_S}
    rows = statements.load("scheduling", "dispatch").run(params)
    heads = {(row.queue, row.priority): row for row in rows if row.lane_id is not None}
    return [Dispatch(*row[:5]) for row in rows], [
        Lane(queue=queue, priority=priority, since_at=row.lane_at, since_id=row.lane_id)
        for (queue, priority), row in heads.items()
    ]


def postpone(dispatch: Dispatch, *, delay_s: float, patience_s: float | None = None, **noted: Any) -> bool:
    """Let what could not be done wait; False if it is not as it was dispatched any more, or was due `patience_s` ago.
    `noted`: `collisions` since, and the `colliding_statement`."""
    params = {"id": dispatch.id, "due_pointer": dispatch.due_pointer, "delay_s": delay_s, "patience_s": patience_s}
    defaults = {"collisions": 0, "colliding_statement": None}
    return bool(statements.load("scheduling", "postpone").run(params | defaults | noted))


def colliding(*, limit: int) -> list[Row]:
    return statements.load("scheduling", "colliding").run({"limit": limit})


def count_death(function_id: int, **of_it: float | None) -> int | None:
    """Count a death of who ran a mutation, or was to start an action; how many that makes. None if it is gone, or still
    locked."""
    rows = statements.load("scheduling", "count_death").run({"id": function_id, "restarts": RESTARTS, **of_it})
    return rows[0].deaths if rows else None


def take(dispatch: Dispatch) -> Row | None:
    """Take a mutation, in the caller's serializable transaction; None if it is not ours to run any more."""
    params = {"id": dispatch.id, "due_pointer": dispatch.due_pointer, "row_pointer": dispatch.row_pointer}
    rows = statements.load("scheduling", "take").run(params)
    return rows[0] if rows else None


def succeed(dispatch: Dispatch, *, by: Holder, result: str | None) -> bool:
    """Write the success of a mutation that was taken in this transaction; False if its row was moved."""
    params = {"id": dispatch.id, "row_pointer": dispatch.row_pointer, "result": result}
    return bool(statements.load("scheduling", "succeed").run(params | _who(by)))


def fail_pending(function_id: int, *, by: Holder, ending: Ending, elapsed_s: float | None) -> Row | None:
    """Write the failure of a function that still stands in the queue and began so long ago: a row with its `cron_id`;
    None if it does not."""
    params = {"id": function_id, "elapsed_s": elapsed_s, **_error(ending)}
    rows = statements.load("scheduling", "fail_pending").run(params | _who(by))
    return rows[0] if rows else None


def start(function_id: int, *, by: Holder, is_again: bool = False) -> ScheduledFunction | None:
    """Start an action; None if it is not ours to start. `is_again`: the answer to a first try was lost. Its `args` are
    JSON text."""
    rows = statements.load("scheduling", "start").run({"id": function_id, "is_again": is_again} | _who(by))
    return _instance(rows[0]) if rows else None


def end_action(function_id: int, *, ending: Ending) -> ScheduledFunction | None:
    """Write how an action ended; None if it was canceled, or given up. Without arguments and result."""
    params = {"id": function_id, "status": ending.status.value, "result": ending.result, **_error(ending)}
    rows = statements.load("scheduling", "end_action").run(params)
    return _instance(rows[0]) if rows else None


def give_up(cluster_id: UUID, *, ran_by: str | None, ending: Ending) -> list[ScheduledFunction]:
    """End running actions of a dead cluster, or of its process `ran_by`, as unknown; without arguments."""
    params = {"cluster_id": cluster_id, "ran_by": ran_by, "error": ending.error, "error_class": ending.error_class}
    return [_instance(row) for row in statements.load("scheduling", "give_up").run(params)]


def overdue(kind: Kind, *, late_s: float, queues: Sequence[str] | None = None) -> bool:
    """Whether something is that late, and nobody works on it."""
    params = {"kind": kind.value, "late_s": late_s} | _of(lanes(kind, queues=queues))
    return bool(statements.load("scheduling", "overdue").run(params))


def next_wake_s(
    kind: Kind, lanes: Sequence[Lane], *, declared: Sequence[str], excluded: Collection[int] = ()
) -> float | None:
    """Seconds until something of these lanes is due or a cron fires, of people or `declared`; None if nothing is ahead.
    What has been due for longer than two seconds is not looked at."""
    params = {"kind": kind.value, "excluded": list(excluded), "lookback_s": LOOKBACK_S, "declared": declared}
    [row] = statements.load("scheduling", "next_wake").run(params | _of(lanes))
    return None if row.seconds is None else float(row.seconds)


def rest(
    kind: Kind, *, queues: Sequence[str] | None, own: str | None, declared: Sequence[str]
) -> tuple[statements.Statement, statements.Params]:
    """The statement, and its parameters, for a connection of one's own, that says in how many seconds anything of these
    queues, a cron (as above) or a task of django-q2's queue `own` is due; null if nothing is ahead."""
    params = {"kind": kind.value, "queues": _some(queues), "own": own, "declared": declared}
    return statements.load("scheduling", "rest"), params


def unqueue(function_id: int) -> bool:
    """Take a function out of the queue unless somebody has its row locked; whether that was done."""
    with transaction.atomic():
        waiting = Due.objects.select_for_update(skip_locked=True).filter(pk=function_id)
        return bool(waiting) and bool(Due.objects.filter(pk=function_id).delete()[0])


def find(function_id: int) -> ScheduledFunction | None:
    return ScheduledFunction.objects.filter(pk=function_id).first()


def retry_of(function_id: int) -> int | None:
    later = ScheduledFunction.objects.filter(retry_of_id=function_id, pk__gt=function_id)  # so a chain has an end
    return later.values_list("pk", flat=True).first()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    workers: int
    free: int
    waits: bool
    dispatched: int = 0
    stat: bytes | None = None
    errors: Sequence[str] = ()


def report(cluster_id: UUID, report: Report) -> datetime | None:
    """A cluster lives, at this moment of the database's clock; None if it was given up meanwhile, and what it held is
    no longer its own."""
    params = {"cluster_id": cluster_id, **asdict(report), "errors": list(report.errors)}
    rows = statements.load("scheduling", "report_cluster").run(params)
    return rows[0].last_seen_at if rows else None


def living_clusters(*, within: timedelta = timedelta(seconds=10)) -> list[Cluster]:
    return list(_living(within).order_by("role", "started_at"))


def siblings(cluster_id: UUID, *, within: timedelta) -> list[UUID]:
    """The cluster ids of the clusters of the same role that reported lately, itself among them; in a fixed order."""
    role = Cluster.objects.filter(cluster_id=cluster_id).values("role")
    return list(_living(within).filter(role__in=role).order_by("cluster_id").values_list("cluster_id", flat=True))


def stats(*, within: timedelta = timedelta(seconds=10)) -> list[bytes]:
    """What django-q2's monitor shows, of the clusters that reported lately."""
    stats = _living(within).filter(stat__isnull=False).values_list("stat", flat=True)
    return [bytes(stat) for stat in stats if stat is not None]


def _living(within: timedelta) -> "QuerySet[Cluster]":
    return Cluster.objects.filter(ended_at=None, last_seen_at__gt=Now() - within)


def _instance(row: Row) -> ScheduledFunction:
    # In the order of the model's fields, which is not that of the table's columns.
    fields = [field.attname for field in ScheduledFunction._meta.concrete_fields]
    names = [name for name in fields if name in row._fields]
    return ScheduledFunction.from_db("default", names, [getattr(row, name) for name in names])


def _of(lanes: Sequence[Lane]) -> dict[str, Any]:
    return {"queue": [lane.queue for lane in lanes], "priority": [lane.priority for lane in lanes]}


def _some(queues: Sequence[str] | None) -> list[str] | None:
    return None if queues is None else list(queues)


def _who(by: Holder) -> dict[str, Any]:
    return {"cluster_id": by.cluster_id, "ran_by": by.ran_by}


def _error(ending: Ending) -> dict[str, Any]:
    return {"error": ending.error, "error_class": ending.error_class, "traceback": ending.traceback}
