"""Live queries of the scheduler: what its pages show, and when that is stale. For operators."""

from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.models import PermissionsMixin

from live.registry import StateQuery, Viewer, live_query
from scheduling import operations
from scheduling.queries import pages
from scheduling.queries.functions import retry_of

OPERATOR = "operator"
VIEW = "scheduling.view_scheduledfunction"
ROWS = 50
NEXT = 10
_UNWELL = frozenset({"failed", "unknown"})
_live_query = partial(live_query, audiences=(OPERATOR,))


@_live_query(
    "scheduled-functions",
    topics=lambda **_: ["scheduled"],
    template="scheduling/live/functions.html",
    at_most_every_s=1.0,
)
def functions(*, status: str = "", function: str = "", cron: str = "", before: int = 0) -> Mapping[str, Any]:
    """A page of scheduled functions, newest first; `before` is an id, 0 for the newest."""
    rows = list(pages.functions(status=status, function=function, cron=cron, before=before or None)[: ROWS + 1])
    filters = {"status": status, "function": function, "cron": cron}
    active = {name: value for name, value in filters.items() if value}
    older = urlencode({**active, "before": rows[ROWS - 1].pk}) if len(rows) > ROWS else ""
    return {"functions": rows[:ROWS], "older": older, "newest": urlencode(active) if before else None}


@_live_query(
    "scheduled-function",
    topics=lambda function_id: [f"scheduled:{function_id}"],
    template="scheduling/live/function.html",
)
def function(*, function_id: int) -> Mapping[str, Any] | None:
    """One scheduled function, with what it came from and what came of it."""
    row = pages.function(function_id)
    if row is None:
        return None
    return {
        "function": row,
        "queued": pages.queued(function_id),
        "next_try": retry_of(function_id),
        "children": pages.descendants(function_id),
    }


@_live_query(
    "function-state",
    topics=lambda function_id: [f"scheduled:{function_id}"],
    template="scheduling/live/status.html",
    at_most_every_s=0.5,
)
def function_state(*, function_id: int) -> Mapping[str, Any] | None:
    """Where one scheduled function stands, for a row of the administration's list."""
    row = pages.function(function_id)
    return None if row is None else {"status": row.status}


@_live_query(
    "scheduling-crons",
    topics=lambda: ["crons", "scheduled"],  # a firing ends
    template="scheduling/live/crons.html",
    at_most_every_s=2.0,
)
def crons() -> Mapping[str, Any]:
    rows: list[Any] = list(pages.crons())  # with what it adds
    internal = [row for row in rows if operations.is_internal(row)]
    return {
        "own": [row for row in rows if row not in internal],
        "internal": internal,
        "unwell": sum(row.outcome in _UNWELL for row in internal),
    }


@_live_query(
    "scheduling-cron",
    topics=lambda name: [f"cron:{name}", "scheduled"],
    template="scheduling/live/cron.html",
    at_most_every_s=1.0,
)
def cron(*, name: str) -> Mapping[str, Any] | None:
    """One cron: its next firings in its own zone, and its last ones."""
    row = pages.cron(name)
    if row is None:
        return None
    return {"cron": row, "upcoming": operations.upcoming(row, count=NEXT), "firings": pages.functions(cron=name)[:20]}


@_live_query(
    "scheduling-clusters", topics=lambda: ["scheduled"], template="scheduling/live/clusters.html", at_most_every_s=2.0
)
def clusters() -> Mapping[str, Any]:
    """Whether anything runs scheduled functions, and how that goes."""
    return {"health": operations.health()}


def _operators(viewer: Viewer, **_: Any) -> str | None:
    user = viewer.user
    return OPERATOR if isinstance(user, PermissionsMixin) and user.has_perm(VIEW) else None


_ALL: tuple[StateQuery, ...] = (functions, function, function_state, crons, cron, clusters)
for _query in _ALL:
    _query.may_see(_operators)
