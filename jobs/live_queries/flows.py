"""Live queries of flows. `whose` as in `live_queries.lists`."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.urls import reverse

from jobs.domain.flow_graph import Place, graph
from jobs.domain.timelines import lanes
from jobs.errors import NotFound
from jobs.live_queries.common import audience_of_list, part
from jobs.queries import flows
from postgres import clock
from postgres.statements import Row

MOST_AWAITING: Final = 10


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
