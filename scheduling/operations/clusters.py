"""The lives of clusters: what they get to run, and what becomes of it when they die; whether they are well, for
`manage.py doctor` and the health page."""

import os
import socket
import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.db import connection, transaction
from django.db.models.functions import Now

from observing.logs import in_short
from postgres import statements
from postgres.errors import NestedTransaction
from postgres.statements import Row
from scheduling.domain.calls import Kind
from scheduling.domain.schedules import LATE
from scheduling.models import Cluster, Cron
from scheduling.operations import endings, notifications, runner
from scheduling.operations.crons import declared
from scheduling.operations.functions import POLL_S
from scheduling.queries import crons, functions
from scheduling.queries.functions import Dispatch, Holder, Lane, Share

# How long a cluster may be silent until the others take what it had. Its own watcher is much quicker.
SILENT_S = 10.0
NEVER_S = 1e9
MOST_SHARES = 16  # clusters of a role that divide the head of the queue among them
# For so long a process that runs an action without a timeout, and reports nothing, counts as living.
_UNTIMED_S = 3600.0
MOST_COLLIDING = 20
CRON_LATE = timedelta(minutes=1)  # a cluster that lives fires within seconds
MOST_CRONS = 20


def begin(cluster_id: UUID, *, role: str) -> None:
    """May be called twice: the answer may be lost."""
    row = Cluster(cluster_id=cluster_id, role=role, host=socket.gethostname(), pid=os.getpid())
    Cluster.objects.bulk_create([row], ignore_conflicts=True)


def dispatch(kind: Kind, *, limit: int, queues: Sequence[str] | None = None) -> list[Dispatch]:
    return functions.dispatch(kind, functions.lanes(kind, queues=queues), limit=limit)[0]


def share(cluster_id: UUID) -> Share:
    boots = functions.siblings(cluster_id, within=timedelta(seconds=SILENT_S))[:MOST_SHARES]
    return Share(rank=boots.index(cluster_id), clusters=len(boots)) if cluster_id in boots else Share()


def next_wake_s(kind: Kind, lanes: Sequence[Lane], *, excluded: Collection[int] = ()) -> float:
    """How long a cluster may sleep when nothing wakes it: until something is due, at most four seconds."""
    seconds = functions.next_wake_s(kind, lanes, excluded=excluded, declared=declared())
    return POLL_S if seconds is None else min(max(seconds, 0.0), POLL_S)


def end(cluster_id: UUID, *, ending: str, why: str | None = None) -> None:
    """A cluster is over: its running actions are unknown. What it had not started has not left the queue. `ending` is
    "stopped", "died" or "frozen". May be called twice."""
    living = Cluster.objects.filter(cluster_id=cluster_id, ended_at=None)
    living.update(ended_at=Now(), ending=ending, why=why and why[:200])
    _give_up(cluster_id, ran_by=None)


def process_died(holder: Holder) -> int:
    """One process of a living cluster died: the action it ran is unknown. How many that were (0 or 1)."""
    return _give_up(holder.cluster_id, ran_by=holder.ran_by)


def sweep(*, judges_silence: bool = True) -> int:
    """Take over from clusters that fell silent, and from those that ended and have an action yet; how many that were.
    `judges_silence` False: the database took no reports for a while, so that silence means nothing yet."""
    over = statements.load("scheduling", "lost_clusters").run({"silent_s": SILENT_S if judges_silence else NEVER_S})
    for row in over:
        _give_up(row.cluster_id, ran_by=None)
    return len(over)


def run_due(*, limit: int = 1000, kinds: Sequence[Kind] = tuple(Kind), queues: Sequence[str] | None = None) -> int:
    """Run what is due right now in this process, and return how many functions were run.

    One step of a cluster without its processes: for tests, and for `manage.py cluster --once`. What it
    schedules for now is run by the next call. Raises NestedTransaction inside a transaction.
    """
    if connection.in_atomic_block:
        raise NestedTransaction(using=connection.alias)
    with _cluster_of_this_process() as by:
        return sum(_run_due(kind, limit=limit, queues=queues, by=by) for kind in kinds)


def _run_due(kind: Kind, *, limit: int, queues: Sequence[str] | None, by: Holder) -> int:
    @contextmanager
    def deadline(timeout_s: float | None) -> Iterator[None]:
        this = Cluster.objects.filter(cluster_id=by.cluster_id)
        this.update(last_seen_at=Now() + timedelta(seconds=_UNTIMED_S if timeout_s is None else timeout_s))
        yield
        this.update(last_seen_at=Now() + timedelta(seconds=_UNTIMED_S))

    due = dispatch(kind, limit=limit, queues=queues)
    if kind is Kind.MUTATION:
        return runner.mutations(due, by=by)
    return sum(runner.action(one, by=by, deadline=deadline) for one in due)


@contextmanager
def _cluster_of_this_process() -> Iterator[Holder]:
    cluster_id = uuid.uuid4()
    begin(cluster_id, role="direct")
    try:
        yield Holder(cluster_id=cluster_id, ran_by=f"{socket.gethostname()}:{os.getpid()}")
    finally:
        end(cluster_id, ending="stopped")


def _give_up(cluster_id: UUID, *, ran_by: str | None) -> int:
    with transaction.atomic():
        lost = functions.give_up(cluster_id, ran_by=ran_by, ending=endings.UNKNOWN)
        for row in lost:
            runner.try_again(row, known=False)
            notifications.ended(row)
    return len(lost)


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Counts are of the last day, and stop at 1,000. `clusters`: those heard of within ten seconds. `late`: what is not
    begun 15 s after its time, in `late_queues`; `longest`: mutations that have run for as long, five at most.
    `colliding`: the pending mutations that collided most. `overdue`: crons that should have fired a minute ago;
    `unfirable`: those that the scheduler paused, because they could not be fired; `failing`: those whose last firing
    failed; 20 of each at most."""

    clusters: tuple[Cluster, ...]
    late: int
    oldest_late_s: float
    frozen: int
    unknown: int
    failed: int
    late_queues: Sequence[str]
    longest: Sequence[str]
    colliding: tuple[Row, ...] = ()
    overdue: tuple[Cron, ...] = ()
    unfirable: tuple[Cron, ...] = ()
    failing: tuple[Row, ...] = ()

    def missing_roles(self) -> tuple[str, ...]:
        """The roles that no living cluster has: nothing of that kind will run."""
        living = {cluster.role for cluster in self.clusters}
        return tuple(role for role in ("mutations", "actions") if role not in living)


def living() -> tuple[Cluster, ...]:
    """Return the clusters heard of within ten seconds."""
    return tuple(functions.living_clusters())


def health() -> Health:
    [numbers] = statements.load("scheduling", "health").run({"late_s": LATE.total_seconds()})
    return Health(
        **numbers._asdict(),
        clusters=living(),
        colliding=tuple(functions.colliding(limit=MOST_COLLIDING)),
        overdue=tuple(crons.overdue(by=CRON_LATE, declared=declared())[:MOST_CRONS]),
        unfirable=tuple(crons.unfirable()[:MOST_CRONS]),
        failing=tuple(row._replace(error=in_short(row.error)) for row in crons.failing(MOST_CRONS)),
    )
