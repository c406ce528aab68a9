"""What an autoscaler asks of queues: how they stand now, and what came and ran in the last minutes."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.db.models import QuerySet, Sum
from django.db.models.functions import Now

from jobs.domain import rollups
from jobs.domain.scaling import Load
from jobs.models import Rollup
from jobs.queries.fleet import COUNTED, MOST_QUEUES
from postgres import statements

# What arrived lately counts as what will: long enough for a mean, short enough to follow a morning's rise.
ARRIVALS_OF: Final = timedelta(minutes=10)
RUNS_OF: Final = timedelta(minutes=70)  # an hour, and the ten minutes that are being counted


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLoad:
    """A queue's load, and since how many seconds the job that waits longest has been due (0: none waits)."""

    queue: str
    load: Load
    oldest_wait_s: float


def queue_loads(*, queue: str = "") -> list[QueueLoad]:
    """How the queue of this name stands, or every one, MOST_QUEUES at most. Waiting jobs are counted up to COUNTED;
    what is past comes from the roll-up, ten seconds late."""
    rows = statements.load("jobs", "scale").run({"name": queue, "limit": COUNTED, "queues": MOST_QUEUES})
    arrived, ran = _arrived(queue), _ran(queue)
    return [
        QueueLoad(
            queue=row.name,
            oldest_wait_s=row.oldest_wait_s if row.waiting else 0.0,  # what waits may have expired
            load=Load(
                arrivals_per_s=arrived.get(row.name, 0) / ARRIVALS_OF.total_seconds(),
                mean_run_s=rollups.mean_s(rollups.merged(ran[row.name])),
                **{name: getattr(row, name) for name in ("waiting", "running", "draining", "ceiling", "is_paused")},
            ),
        )
        for row in rows
    ]


def _arrived(queue: str) -> dict[str, int]:
    """By queue: how many jobs came in the last whole minutes. The one that is under way is not over."""
    minutes = _since(rollups.MINUTE_S, ARRIVALS_OF + timedelta(minutes=1), queue)
    minutes = minutes.filter(at__lte=Now() - timedelta(minutes=1))
    return dict(minutes.values_list("queue").annotate(Sum("arrived")))


def _ran(queue: str) -> defaultdict[str, list[rollups.Counts]]:
    """By queue: how long the runs of the last hour took, in steps of ten minutes."""
    runs: defaultdict[str, list[rollups.Counts]] = defaultdict(list)
    for name, ran in _since(rollups.TEN_MINUTES_S, RUNS_OF, queue).values_list("queue", "ran"):
        runs[name].append(ran)
    return runs


def _since(step_s: int, back: timedelta, queue: str) -> QuerySet[Rollup]:
    steps = Rollup.objects.filter(step_s=step_s, at__gt=Now() - back)
    return steps.filter(queue=queue) if queue else steps
