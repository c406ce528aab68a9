from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import QuerySet
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


def report(cluster_id: UUID, report: Report) -> datetime | None:
    """A cluster lives, at this moment of the database's clock; None if it was given up meanwhile, and what it held is
    no longer its own."""
    params = {"cluster_id": cluster_id, **asdict(report), "errors": list(report.errors)}
    rows = statements.load("scheduling", "report_cluster").run(params)
    return rows[0].last_seen_at if rows else None


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
