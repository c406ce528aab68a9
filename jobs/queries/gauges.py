"""Reads for the metrics: what stands how now, counted up to a bound, and what the roll-up counted since a moment."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings

from jobs.domain.rollups import MINUTE_S
from jobs.models import Rollup, RollupWatermark
from jobs.queries.fleet import MOST_QUEUES, QueueRow
from jobs.queries.pages import EVERYBODY
from postgres import statements

COUNTED = 10_000  # waiting jobs of one queue; a queue that long needs no better number to be noticed


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Whole minutes by queue that nothing can be added to any more, up to `until`."""

    until: datetime
    minutes: Sequence[Rollup]


def queues() -> list[QueueRow]:
    """Every queue, MOST_QUEUES at most; `pending` was counted up to COUNTED."""
    params = {"viewer": EVERYBODY, "name": "", "alive_s": settings.JOBFARM["WORKER_ALIVE_S"]}
    rows = statements.load("jobs", "queue_rows").run(params | {"limit": COUNTED, "queues": MOST_QUEUES})
    return [QueueRow(**row._asdict()) for row in rows]


def oldest_waiting_s() -> dict[str, float]:
    """By queue: since how many seconds the job that is due longest has been due. Queues without one are left out."""
    return {row.queue: row.oldest_s for row in statements.load("jobs", "oldest_waiting").run()}


def settled(*, since: datetime | None) -> Settled | None:
    """What the roll-up has settled from this moment on; nothing yet for None. None if it never ran."""
    until = RollupWatermark.objects.values_list("settled_until", flat=True).first()
    if until is None:
        return None
    if since is None:
        return Settled(until=until, minutes=[])
    rows = Rollup.objects.filter(step_s=MINUTE_S, at__gte=since, at__lt=until)
    return Settled(until=until, minutes=list(rows))
