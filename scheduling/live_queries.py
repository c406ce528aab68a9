"""Live queries of the scheduler: what its pages show, and when that is stale. For operators."""

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from core.pages import neighbours
from live.registry import for_holders, live_query
from postgres import clock
from scheduling import operations, registry
from scheduling.models import Due
from scheduling.queries import pages
from scheduling.queries.functions import retry_of

OPERATOR = "operator"
VIEW = "scheduling.view_scheduledfunction"
ROWS = 50
_UNWELL = frozenset({"failed", "unknown"})
_shown = partial(live_query, audiences=(OPERATOR,), may_see=for_holders(VIEW))


@_shown("scheduled-functions", topics=lambda **_: ["scheduled"], at_most_every_s=1.0)
def functions(*, status: str = "", function: str = "", cron: str = "", before: int = 0) -> Mapping[str, Any]:
    """A page of scheduled functions, newest first; `before` is an id, 0 for the newest."""
    rows = list(pages.functions(status=status, function=function, cron=cron, before=before)[: ROWS + 1])
    filters = {"status": status, "function": function, "cron": cron}
    older = rows[ROWS - 1].pk if len(rows) > ROWS else None
    return {"functions": rows[:ROWS], **neighbours(filters, before=before, older=older)}


@_shown("scheduled-function", topics=lambda function_id: [f"scheduled:{function_id}"])
def function(*, function_id: int) -> Mapping[str, Any] | None:
    row = pages.function(function_id)
    if row is None:
        return None
    queued = pages.queued(function_id)
    return {
        "function": row, "queued": queued, "is_of_another_version": _is_put_aside(row, queued),
        "next_try": retry_of(function_id), "children": pages.descendants(function_id),
    }  # fmt: skip


def _is_put_aside(row: Any, queued: Due | None) -> bool:
    """Whether this process does not know it, or a cluster did not: what waits for another reason says which."""
    if queued is None or not registry.takes(row.function, row.stored_args, task_backend=row.task_backend):
        return queued is not None
    is_ahead = queued.next_at > max(queued.run_at, clock.now() + timedelta(seconds=1))
    return is_ahead and not (queued.collisions or queued.deaths)


@_shown(
    "function-state", topics=lambda function_id: [f"scheduled:{function_id}"], template="scheduling/live/status.html",
    at_most_every_s=0.5,
)  # fmt: skip
def function_state(*, function_id: int) -> Mapping[str, Any] | None:
    row = pages.function(function_id)
    return None if row is None else {"status": row.status}


@_shown("scheduling-crons", topics=lambda: ["crons", "scheduled"], at_most_every_s=2.0)  # as a firing ends
def crons() -> Mapping[str, Any]:
    rows: list[Any] = list(pages.crons())  # with what it adds
    internal = [row for row in rows if operations.is_internal(row)]
    return {
        "own": [row for row in rows if row not in internal], "internal": internal,
        "unwell": sum(row.outcome in _UNWELL for row in internal),
    }  # fmt: skip


@_shown("scheduling-cron", topics=lambda name: [f"cron:{name}", "scheduled"], at_most_every_s=1.0)
def cron(*, name: str) -> Mapping[str, Any] | None:
    row = pages.cron(name)
    if row is None:
        return None
    return {"cron": row, "upcoming": operations.upcoming(row), "firings": pages.functions(cron=name)[:20]}


@_shown("scheduling-clusters", topics=lambda: ["scheduled"], at_most_every_s=2.0)
def clusters() -> Mapping[str, Any]:
    return {"health": operations.health()}
