"""What happened, for people: the feed, an entry for each event, and the digest of a day."""

from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

from django.db.models import Count, Q

from scheduling import operations as scheduling
from webhooks import errors
from webhooks.models import Activity, ActivityDigest

PAGE: Final = 50
MOST: Final = 200
BATCH: Final = 5000  # rows of some hundred bytes: a few ten milliseconds
_MOST_GROUPS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """What a day (UTC) came to: how many entries, by source, and by the ten busiest actors."""

    day: date
    entries: int
    sources: tuple[tuple[str, int], ...]
    actors: tuple[tuple[str, int], ...]


def feed(
    *, limit: int = PAGE, before: str | None = None, search: str | None = None, **of: str
) -> tuple[list[Activity], str | None]:
    """Up to `limit` (at most 200) entries by when they happened, the newest first; and what leads to the next page
    (None: this is the last).

    `before` is what leads on from the page before; `search` is a text in actor, verb or object. Of a `source`, one of
    the eight, or of a `kind` and a `resource`, which name a row as an entry does. Late entries stand where they belong.
    Raises NotFound for a `before` that no page gave."""
    limit = min(max(limit, 1), MOST)
    rows = Activity.objects.filter(**of).order_by("-at", "-id")
    if search:
        rows = rows.filter(Q(actor__icontains=search) | Q(verb__icontains=search) | Q(object__icontains=search))
    if before:
        at, entry_id = _position(before)
        # The first condition is implied by the second, and is what the index is entered by.
        rows = rows.filter(Q(at__lte=at), Q(at__lt=at) | Q(id__lt=entry_id))
    entries = list(rows[: limit + 1])
    shown = entries[:limit]
    older = f"{shown[-1].at.astimezone(UTC).isoformat()}_{shown[-1].pk}" if len(entries) > limit else None
    return shown, older


def digest(*, day: date, now: datetime) -> Digest:
    """What a day came to. That of a day that is over is computed once and stored; a late entry drops it, and so does
    the daily cron, should the two have crossed. Today's is computed each time."""
    stored = ActivityDigest.objects.filter(day=day).first()
    if stored:
        groups = {name: tuple(map(tuple, stored.digest[name])) for name in ("sources", "actors")}
        return Digest(day=day, entries=stored.digest["entries"], **groups)
    computed = _compute(day)
    if day < now.astimezone(UTC).date():
        row = ActivityDigest(day=day, digest=asdict(computed) | {"day": day.isoformat()})
        ActivityDigest.objects.bulk_create([row], ignore_conflicts=True)  # somebody else may have stored it
    return computed


@scheduling.mutation
def invalidate_digests() -> int:
    """Drop every stored digest; how many there were. The next reader computes anew."""
    forgotten, _ = ActivityDigest.objects.all().delete()
    return forgotten


def _position(cursor: str) -> tuple[datetime, int]:
    at, _, entry_id = cursor.rpartition("_")
    try:
        moment = datetime.fromisoformat(at.replace(" ", "+"))  # a plus sign in an address is a blank
        position = moment.astimezone(UTC), int(entry_id)
    except (ValueError, OverflowError):
        raise errors.NotFound(resource="page of activity") from None
    if position[1] >= 2**63:
        raise errors.NotFound(resource="page of activity")
    return position


def _compute(day: date) -> Digest:
    start = datetime.combine(day, time(), tzinfo=UTC)
    lines = Activity.objects.filter(at__gte=start, at__lt=start + timedelta(days=1))

    def count(*by: str) -> Any:
        return lines.values(*by).annotate(entries=Count("id")).order_by("-entries", *by)

    sources = list(count("source"))
    actors = count("actor")[: _MOST_GROUPS + 1]
    named = [(row["actor"], row["entries"]) for row in actors if row["actor"]]
    return Digest(
        day=day,
        entries=sum(row["entries"] for row in sources),
        sources=tuple((row["source"], row["entries"]) for row in sources),
        actors=tuple(named[:_MOST_GROUPS]),
    )
