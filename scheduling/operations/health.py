"""Whether scheduled functions run: the facts for `manage.py doctor` and the health page."""

from dataclasses import dataclass
from datetime import timedelta

from postgres import statements
from postgres.statements import Row
from scheduling.domain.schedules import LATE
from scheduling.models import Cluster, Cron
from scheduling.queries import clusters, crons, functions

MOST_COLLIDING = 20
CRON_LATE = timedelta(minutes=1)  # a cluster that lives fires within seconds
MOST_CRONS = 20
SEEN_WITHIN = timedelta(seconds=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Counts are of the last day, and stop at 1,000. `clusters`: those heard of within ten seconds. `late`: what is not
    begun 15 s after its time. `colliding`: the pending mutations that collided most. `overdue`: crons that should have
    fired a minute ago; `unfirable`: those that the scheduler paused, because they could not be fired; 20 of each at
    most."""

    clusters: tuple[Cluster, ...]
    late: int
    oldest_late_s: float
    frozen: int
    unknown: int
    failed: int
    colliding: tuple[Row, ...] = ()
    overdue: tuple[Cron, ...] = ()
    unfirable: tuple[Cron, ...] = ()

    def missing_roles(self) -> tuple[str, ...]:
        """The roles that no living cluster has: nothing of that kind will run."""
        living = {cluster.role for cluster in self.clusters}
        return tuple(role for role in ("mutations", "actions") if role not in living)


def health() -> Health:
    [numbers] = statements.load("scheduling", "health").run({"late_s": LATE.total_seconds()})
    return Health(
        **numbers._asdict(),
        clusters=tuple(clusters.living(within=SEEN_WITHIN)),
        colliding=tuple(functions.colliding(limit=MOST_COLLIDING)),
        overdue=tuple(crons.overdue(by=CRON_LATE)[:MOST_CRONS]),
        unfirable=tuple(crons.unfirable()[:MOST_CRONS]),
    )
