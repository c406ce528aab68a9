"""Live queries of what one worker did, and of whether a new one has come."""

from collections.abc import Mapping
from typing import Any

from jobs.domain import charts
from jobs.live_queries.common import audience_of_worker, part
from jobs.queries import fleet
from jobs.queries import workers as done


@part("worker-history", "worker:{worker_id}", "jobs", seen_by=audience_of_worker, every_s=5.0)
def worker_history(*, worker_id: int) -> Mapping[str, Any] | None:
    """What one worker did: lately, in a week, and by day."""
    row = fleet.worker_row(worker_id)
    if row is None:
        return None
    scores = done.days(row.worker)
    return {
        "worker_name": row.worker.name,
        "lately": done.lately(worker_id),
        "failures": done.failures(worker_id),
        "days": [score for score in reversed(scores) if score is not None],
        "count": len(scores),
        "ended": sum(score.ended for score in scores if score),
        "chart": charts.stack(
            [[s.succeeded if s else 0 for s in scores], [s.ended - s.succeeded if s else 0 for s in scores]],
            [s.ended if s else 0 for s in scores],
        ),
    }


@part("worker-arrival", "worker:{worker_id}", "workers", seen_by=audience_of_worker, every_s=0.5)
def worker_arrival(*, worker_id: int, since_ms: int) -> Mapping[str, Any] | None:
    """Whether a worker has called since a moment, in milliseconds since 1970: then its new key is in use."""
    row = fleet.worker_row(worker_id)
    if row is None:
        return None
    seen = row.worker.last_seen_at
    return {"row": row, "has_arrived": seen is not None and seen.timestamp() * 1000 > since_ms}
