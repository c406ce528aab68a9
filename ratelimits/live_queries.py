"""Live queries of limits: what they hold now. For whoever may see them: keys are people's names and addresses."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from live.registry import for_holders, live_query
from ratelimits import operations, queries

SHOWN = 100  # limits and keys on the page, those most used first; the search finds the others
_shown = partial(
    live_query, topics=lambda **_: ["limits"], audiences=("operator",), may_see=for_holders("ratelimits.view_bucket"),
    at_most_every_s=1.0,
)  # fmt: skip


@_shown("limits")
def limits(*, name: str = "", search: str = "") -> Mapping[str, Any]:
    """The limits and keys most used, with what they hold now; of one limit, or those that hold a text."""
    rows, total = queries.gauges(name=name or None, search=search or None, limit=SHOWN)
    return {
        "gauges": rows,
        "total": total,
        "declared": operations.everything(),
        "broken": operations.broken(),
        "is_narrowed": bool(name or search),
    }


@_shown("limit")
def limit(*, name: str, key: str = "") -> Mapping[str, Any]:
    """One limit and key; nothing is stored of one that is full."""
    return {"gauge": queries.gauge(name, key), "config": operations.everything().get(name)}
