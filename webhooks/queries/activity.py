from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.db.models import Count, Q

from webhooks.models import Activity, ActivityDigest

Cursor = tuple[datetime, int]  # the moment and the id of the line at the edge


def write(entries: Sequence[Activity]) -> None:
    """Store lines; those that their delivery emitted before stay as they are, so a replay adds none."""
    Activity.objects.bulk_create(entries, ignore_conflicts=True)


def newest(*, limit: int, before: Cursor | None = None, search: str | None = None, **of: str) -> list[Activity]:
    """Up to `limit` lines, the newest first; those before a cursor, of a source, of a resource, with a text in them."""
    rows = Activity.objects.filter(**of).order_by("-at", "-id")
    if search:
        rows = rows.filter(Q(actor__icontains=search) | Q(verb__icontains=search) | Q(object__icontains=search))
    if before:
        at, entry_id = before
        # The first condition is implied by the second, and is what the index is entered by.
        rows = rows.filter(Q(at__lte=at), Q(at__lt=at) | Q(id__lt=entry_id))
    return list(rows[:limit])


def counts(day: date, *by: str, most: int = 1000) -> list[dict[str, Any]]:
    groups = _of(day).values(*by).annotate(entries=Count("id")).order_by("-entries", *by)
    return list(groups[:most])


def forget_digests(*days: date) -> int:
    """Drop what is stored of these days, or of all days if none is given; how many that were."""
    stored = ActivityDigest.objects.filter(day__in=days) if days else ActivityDigest.objects.all()
    return stored.delete()[0]


def of_delivery(delivery: int) -> list[Activity]:
    return list(Activity.objects.filter(delivery=delivery).order_by("n"))


def _of(day: date) -> Any:
    start = datetime.combine(day, time(), tzinfo=UTC)
    return Activity.objects.filter(at__gte=start, at__lt=start + timedelta(days=1))
