"""Whether scheduled functions run: the facts for `manage.py doctor` and the health page."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from postgres import statements
from scheduling.domain.schedules import LATE
from scheduling.models import Cron
from scheduling.queries import clusters, crons, functions

MOST_COLLIDING = 20
CRON_LATE = timedelta(minutes=1)  # a cluster that lives fires within seconds
MOST_CRONS = 20
SEEN_WITHIN = timedelta(seconds=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Living:
    """One cluster that was heard of within the last ten seconds."""

    role: str
    host: str
    pid: int
    started_at: datetime
    workers: int
    free: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Colliding:
    """A pending mutation whose runs collided so often, the last one at this statement."""

    id: int
    function: str
    collisions: int
    statement: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Counts are of the last day, and stop at 1,000. `late`: what is not begun 15 s after its time. `colliding`: those
    that collided most, 20 at most. `overdue`: crons that should have fired a minute ago; `unfirable`: those that the
    scheduler paused, because they could not be fired; 20 of each at most."""

    clusters: tuple[Living, ...]
    late: int
    oldest_late_s: float
    frozen: int
    unknown: int
    failed: int
    colliding: tuple[Colliding, ...] = ()
    overdue: tuple[Cron, ...] = ()
    unfirable: tuple[Cron, ...] = ()

    def missing_roles(self) -> tuple[str, ...]:
        """The roles that no living cluster has: nothing of that kind will run."""
        living = {cluster.role for cluster in self.clusters}
        return tuple(role for role in ("mutations", "actions") if role not in living)


def health() -> Health:
    [numbers] = statements.load("scheduling", "health").run({"late_s": LATE.total_seconds()})
    living = [
        Living(role=c.role, host=c.host, pid=c.pid, started_at=c.started_at, workers=c.workers, free=c.free)
        for c in clusters.living(within=SEEN_WITHIN)
    ]
    return Health(
        clusters=tuple(living),
        late=numbers.late,
        oldest_late_s=numbers.oldest_late_s or 0.0,
        frozen=numbers.frozen,
        unknown=numbers.unknown,
        failed=numbers.failed,
        colliding=tuple(_colliding()),
        overdue=tuple(crons.overdue(by=CRON_LATE)[:MOST_CRONS]),
        unfirable=tuple(crons.unfirable()[:MOST_CRONS]),
    )


def _colliding() -> Iterator[Colliding]:
    for row in functions.colliding(limit=MOST_COLLIDING):
        statement = row.colliding_statement or ""
        yield Colliding(id=row.id, function=row.function, collisions=row.collisions, statement=statement)
