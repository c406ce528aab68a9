"""Live queries of lists of jobs, of bulk actions on what they show, and of flows.

`whose` says whose jobs: EVERYBODY's (operators alone) or those of a person, by id.
"""

import inspect
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.urls import reverse

from jobs.domain.bulks import OVER, UNDOING, BulkAction, Phase, sentence
from jobs.domain.filters import DESCRIBED, Filters
from jobs.domain.flow_graph import Place, graph
from jobs.domain.timelines import lanes
from jobs.errors import NotFound
from jobs.live_queries.common import MEMBER, audience_of_list, part
from jobs.queries import bulks, flows, lists
from live.registry import Viewer
from postgres import clock
from postgres.statements import Row

MOST_AWAITING: Final = 10


def _narrowed(read: Callable[..., Mapping[str, Any]]) -> Callable[..., Mapping[str, Any]]:
    """Declare a text argument for each filter, beside the read's own."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    own = [each for each in inspect.signature(read).parameters.values() if each.kind is keyword]
    texts = [inspect.Parameter(name, keyword, default="", annotation=str) for name in DESCRIBED]
    read.__signature__ = inspect.Signature([*own, *texts])  # type: ignore[attr-defined]  # inspect reads it
    return read


@part("jobs", "jobs", seen_by=audience_of_list, every_s=1.0)
@_narrowed
def jobs(*, whose: int, before: int = 0, sort: str = "", **texts: str) -> Mapping[str, Any]:
    """A page of a list of jobs; `before` 0 is the first one. The filters are those of `jobs.domain.filters`; `sort` is
    one of `jobs.queries.lists.RANKED`, or empty for the newest first."""
    filters = Filters(**texts)
    if sort in lists.RANKED:
        page = lists.ranked(viewer=whose, filters=filters, by=sort, skip=before)
    else:
        page = lists.page(viewer=whose, filters=filters, before=before or None)
    params = filters.as_dict() | ({"sort": sort} if sort else {})
    return {
        "page": page,
        "sort": sort,
        "order": lists.ORDERS.get(sort) or ("Older jobs" if before else "Newest jobs"),
        "is_narrowed": bool(filters.as_dict()),
        "newest_url": f"?{urlencode(params)}" if before else None,
        "older_url": f"?{urlencode({**params, 'before': page.older})}" if page.older else None,
    }


@part("jobs-count", "jobs", seen_by=audience_of_list, template="count", every_s=5.0)
@_narrowed
def count(*, whose: int, **texts: str) -> Mapping[str, Any]:
    """How many jobs a list has on all its pages."""
    filters = Filters(**texts)
    matches = lists.count(viewer=whose, filters=filters)
    return {"matches": matches, "most_counted": lists.MOST_COUNTED, "scanned": lists.most_scanned(filters)}


@part("bulk", "bulk:{bulk_id}", audiences=(MEMBER,), every_s=0.25)
def bulk(*, bulk_id: int) -> Mapping[str, Any] | None:
    """A bulk action on many jobs: how many match, how far it is, what it came to."""
    row = bulks.find(bulk_id)
    if row is None:
        return None
    action = BulkAction(row.undoes.action if row.undoes else row.action)
    return {
        "bulk": row,
        "sentence": UNDOING[action] if row.undoes else sentence(action, row.value, jobs=row.matched),
        "share": _share(row),
        "results": sorted(row.results.items(), key=lambda entry: -entry[1]),
        "undoing": row.undone_by_id,
        "can_undo": UNDOING[action] if row.phase in OVER and not row.undoes else "",
        "undoable": bulks.count_items(bulk_id) if row.phase in OVER else 0,
    }


@bulk.may_see
def _(viewer: Viewer, *, bulk_id: int) -> str | None:
    is_known = viewer.user.is_authenticated and viewer.user.is_active
    return MEMBER if is_known and bulks.seen(bulk_id, by=viewer.user) is not None else None


def _share(bulk_row: Any) -> float | None:
    """How far it is; of what is being counted nobody knows."""
    if bulk_row.phase == Phase.COUNTING:
        return None
    return 1.0 if bulk_row.phase == Phase.DONE else min(bulk_row.handled / max(bulk_row.matched, 1), 1.0)


@part("flow", "jobs", seen_by=audience_of_list, every_s=2.0)
def flow(*, whose: int, flow_id: int) -> Mapping[str, Any] | None:
    """The picture of a flow, how its places stand, and what they used."""
    try:
        seen = flows.seen(flow_id, viewer=whose)
    except NotFound:
        return None
    now = clock.now()
    places = [_place(row, seen, now) for row in seen.places]
    is_living = any(seen.counts.get(status) for status in ("pending", "in_progress"))
    until = now if is_living else max(row.ended_at for row in seen.places)
    drawn = graph(places)
    attempts, is_all = flows.attempts(seen)
    scale = {"begin_s": seen.created_at.timestamp(), "end_s": until.timestamp()}
    steps, left_out = lanes(drawn.nodes, places, attempts, **scale)
    return {
        "list_url": f"{reverse('jobs:list')}?flow={flow_id}",
        "graph": drawn,
        "lanes": steps,
        "lanes_left_out": left_out + drawn.left_out,
        "is_all": is_all,
        "since": seen.created_at,
        "until": until,
        "counts": sorted(seen.counts.items()),
        "used": seen.used,
        "awaiting": [row for row in seen.places if row.awaits][:MOST_AWAITING],
        "took_s": (until - seen.created_at).total_seconds(),
        "is_living": is_living,
        "has_failed": any(seen.counts.get(status) for status in ("failed", "timed_out", "canceled")),
    }


def _place(row: Row, seen: flows.Seen, now: datetime) -> Place:
    has_run = row.claimed_at is not None and row.status != "pending"
    return Place(
        id=row.id, name=row.name, kind=row.kind, status=row.status, depth=seen.depths[row.id], after=seen.after[row.id],
        progress=row.progress, ran_s=((row.ended_at or now) - row.claimed_at).total_seconds() if has_run else 0.0,
        created_s=row.created_at.timestamp(), claimed_s=row.claimed_at and row.claimed_at.timestamp(),
        ended_s=row.ended_at and row.ended_at.timestamp(),
    )  # fmt: skip
