"""Live queries of lists of jobs, and of bulk actions on what they show.

`whose` says whose jobs: EVERYBODY's (operators alone) or those of a person, by id.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from jobs.domain.bulks import OVER, UNDOING, BulkAction, Phase, sentence
from jobs.domain.filters import DESCRIBED, Filters
from jobs.live_queries.common import MEMBER, audience_of_list, part
from jobs.queries import bulks, lists
from live.registry import Viewer


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
