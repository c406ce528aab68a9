"""Live queries of limits: what they hold now. For whoever may see them: keys are people's names and
addresses."""

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import AnonymousUser

from live.registry import Viewer, live_query
from ratelimits import operations, queries

OPERATOR = "operator"
SHOWN = 100  # limits and keys on the page, those most used first; the search finds the others
_TOPICS = ["limits"]


@live_query(
    "limits",
    topics=lambda **_: _TOPICS,
    audiences=(OPERATOR,),
    template="ratelimits/live/limits.html",
    at_most_every_s=1.0,
)
def gauges(*, name: str = "", search: str = "") -> Mapping[str, Any]:
    """The limits and keys most used, with what they hold now; of one limit, or those that hold a text."""
    rows, total = queries.gauges(name=name or None, search=search or None, limit=SHOWN)
    return {
        "gauges": rows,
        "total": total,
        "declared": operations.everything(),
        "broken": operations.broken(),
        "is_narrowed": bool(name or search),
    }


@live_query(
    "limit",
    topics=lambda **_: _TOPICS,
    audiences=(OPERATOR,),
    template="ratelimits/live/limit.html",
    at_most_every_s=1.0,
)
def gauge(*, name: str, key: str = "") -> Mapping[str, Any]:
    """One limit and key; nothing is stored of one that is full."""
    return {"gauge": queries.gauge(name, key), "config": operations.everything().get(name)}


def may_see(viewer: Viewer, **_: Any) -> str | None:
    """Whoever may view the table in the admin."""
    user = viewer.user
    if isinstance(user, AnonymousUser) or not user.is_active:
        return None
    return OPERATOR if user.has_perm("ratelimits.view_bucket") else None  # type: ignore[attr-defined]


for query in (gauges, gauge):
    query.may_see(may_see)
