"""How many jobs stand how at this moment, counted up to a bound, for pages and metrics; and what came and ran in the
last minutes, for autoscalers."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import QuerySet, Sum
from django.db.models.functions import Now

from jobs.domain import rollups
from jobs.domain.scaling import Load
from jobs.domain.states import Status
from jobs.models import Rollup, RollupWatermark
from jobs.queries import fleet
from jobs.queries.fleet import COUNTED, MOST_QUEUES
from jobs.queries.pages import EVERYBODY
from postgres import statements

# What arrived lately counts as what will: long enough for a mean, short enough to follow a morning's rise.
ARRIVALS_OF: Final = timedelta(minutes=10)
RUNS_OF: Final = timedelta(minutes=70)  # an hour, and the ten minutes that are being counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Whole minutes by queue that nothing can be added to any more, up to `until`."""

    until: datetime
    minutes: Sequence[Rollup]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """How many jobs stand so: exactly, at least that many, or about as many. `due`: now or later, where that counts."""

    status: Status
    title: str
    number: int
    due: str = ""
    has_more: bool = False
    is_estimate: bool = False

    @property
    def text(self) -> str:
        if self.has_more:
            return f"{self.number:,}+"
        return f"about {_rounded(self.number)}" if self.is_estimate else f"{self.number:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """How a person's jobs and workers stand, or all of the farm's; `figures`, of the farm alone, are by status, and
    `pending` and `running` are what they come to."""

    pending: Figure
    running: Figure
    figures: Sequence[Figure]
    workers: fleet.WorkerCounts


def oldest_waiting_s() -> dict[str, float]:
    """By queue: since how many seconds the job that is due longest has been due. Queues without one are left out."""
    rows = statements.load("jobs", "scale").run({"name": "", "limit": 1, "queues": fleet.MOST_MEASURED})
    return {row.name: row.oldest_wait_s for row in rows if row.waiting}


def settled(*, since: datetime | None) -> Settled | None:
    """What the roll-up has settled from this moment on; nothing yet for None. None if it never ran."""
    until = RollupWatermark.objects.values_list("settled_until", flat=True).first()
    if until is None:
        return None
    if since is None:
        return Settled(until=until, minutes=[])
    rows = Rollup.objects.filter(step_s=rollups.MINUTE_S, at__gte=since, at__lt=until)
    return Settled(until=until, minutes=list(rows))


def summary(*, viewer: int) -> Summary:
    workers = fleet.worker_counts(viewer=viewer)
    if viewer == EVERYBODY:
        all_figures = figures()
        due, later, running, *_ = all_figures
        waiting = min(due.number + later.number, COUNTED)  # which were counted together
        pending = _pending(waiting, has_more=due.has_more or later.has_more)
        return Summary(pending=pending, running=running, figures=all_figures, workers=workers)
    queues = fleet.queue_rows(viewer=viewer)
    waiting = sum(queue.pending for queue in queues)
    pending = _pending(waiting, has_more=any(queue.has_more for queue in queues))
    running = Figure(status=Status.IN_PROGRESS, title="In progress", number=sum(queue.running for queue in queues))
    return Summary(pending=pending, running=running, figures=(), workers=workers)


def figures() -> list[Figure]:
    """Jobs by where they stand, all of the farm; waiting ones apart from those that are not due yet."""
    [row] = statements.load("jobs", "states").run({"limit": COUNTED + 1})
    counted = (
        (Status.PENDING, "Pending, due now", row.due, "now"),
        (Status.PENDING, "Pending, due later", row.later, "later"),
        (Status.IN_PROGRESS, "In progress", row.running, ""), (Status.FAILED, "Failed", row.failed, ""),
        (Status.TIMED_OUT, "Timed out", row.timed_out, ""), (Status.CANCELED, "Canceled", row.canceled, ""),
    )  # fmt: skip
    success = Figure(status=Status.SUCCESS, title="Success", number=row.success, is_estimate=not row.is_small)
    return [*(_counted(*each, row) for each in counted), success]


def _pending(number: int, *, has_more: bool) -> Figure:
    return Figure(status=Status.PENDING, title="Pending", number=number, has_more=has_more)


def _counted(status: Status, title: str, number: int, due: str, row: statements.Row) -> Figure:
    # Due now and due later are counted together: where that stopped, each of them is at least what was met.
    stopped = row.due + row.later > COUNTED if status is Status.PENDING else number > COUNTED
    has_more = stopped and number > 0
    return Figure(status=status, title=title, number=min(number, COUNTED), due=due, has_more=has_more)


def _rounded(number: int) -> str:
    if number < 1_000_000:
        return f"{round(number, -3):,}"
    return f"{number / 1_000_000:.1f} million"


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
