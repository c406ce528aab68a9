from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from uuid import UUID

from django.db.models import F, QuerySet
from django.db.models.functions import Now

from postgres import statements
from scheduling.models import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    workers: int
    free: int
    waits: bool
    dispatched: int = 0
    stat: bytes | None = None
    errors: Sequence[str] = ()


def begin(cluster_id: UUID, *, role: str, host: str, pid: int) -> None:
    Cluster.objects.create(cluster_id=cluster_id, role=role, host=host, pid=pid)


def report(cluster_id: UUID, report: Report) -> bool:
    """A cluster lives; False if it was given up meanwhile, and what it held is no longer its own."""
    params = {"cluster_id": cluster_id, **asdict(report), "errors": list(report.errors)}
    return bool(statements.load("scheduling", "report_cluster").run(params))


def vouch(cluster_id: UUID, *, for_s: float) -> None:
    """Let a cluster that reports by itself only now and then count as living for a while."""
    Cluster.objects.filter(cluster_id=cluster_id).update(last_seen_at=Now() + timedelta(seconds=for_s))


def find(cluster_id: UUID) -> tuple[Cluster | None, float | None]:
    cluster = Cluster.objects.annotate(age=Now() - F("last_seen_at")).filter(cluster_id=cluster_id).first()
    age: timedelta | None = cluster.age if cluster else None
    return cluster, None if age is None else age.total_seconds()


def end(cluster_id: UUID, *, ending: str, why: str | None) -> None:
    """A cluster's life is over, if that was not known."""
    living = Cluster.objects.filter(cluster_id=cluster_id, ended_at=None)
    living.update(ended_at=Now(), ending=ending, why=why and why[:200])


def lose_silent(*, silent_s: float) -> list[UUID]:
    """End those that have not reported for so long. The cluster ids of these, and of ended clusters that still have an
    action in progress."""
    rows = statements.load("scheduling", "lost_clusters").run({"silent_s": silent_s})
    return [row.cluster_id for row in rows]


def living(*, within: timedelta) -> list[Cluster]:
    return list(_living(within).order_by("role", "started_at"))


def siblings(cluster_id: UUID, *, within: timedelta) -> list[UUID]:
    """The cluster ids of the clusters of the same role that reported lately, itself among them; in a fixed order."""
    role = Cluster.objects.filter(cluster_id=cluster_id).values("role")
    return list(_living(within).filter(role__in=role).order_by("cluster_id").values_list("cluster_id", flat=True))


def stats(*, within: timedelta = timedelta(seconds=10)) -> list[bytes]:
    """What django-q2's monitor shows, of the clusters that reported lately."""
    stats = _living(within).filter(stat__isnull=False).values_list("stat", flat=True)
    return [bytes(stat) for stat in stats if stat is not None]


def _living(within: timedelta) -> "QuerySet[Cluster]":
    return Cluster.objects.filter(ended_at=None, last_seen_at__gt=Now() - within)
