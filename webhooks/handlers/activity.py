"""Emitting activity: one line for what people would want to read of an event."""

from dataclasses import KW_ONLY, dataclass
from datetime import date, datetime

from django.db import transaction
from django.db.models import Model

from live import operations as live
from webhooks.domain.parts import cut
from webhooks.handlers.registry import Event
from webhooks.models import Activity, ActivityDigest

TOPIC = "activity"


@dataclass(frozen=True, slots=True)
class Line:
    """What was done to what; by `actor` ("": the sender itself), at a moment (None: when the event occurred). `about`
    is the type and the id of the row that it speaks of; `link` is https or ""."""

    verb: str
    object: str
    _: KW_ONLY
    actor: str = ""
    at: datetime | None = None
    about: tuple[type[Model], str | None] | None = None
    link: str = ""


def emit(event: Event, *lines: Line) -> None:
    """Emit lines for a delivery, in its transaction. Those that it emitted before a replay stay as they are."""
    if not lines:
        return
    rows = [_row(event, n, line) for n, line in enumerate(lines)]
    Activity.objects.bulk_create(rows, ignore_conflicts=True)
    live.touch(TOPIC)
    _forget_digests({row.at.date() for row in rows}, today=event.received_at.date())


def _row(event: Event, n: int, line: Line) -> Activity:
    table, resource = line.about or (None, None)
    return Activity(
        delivery_id=event.pk,
        n=n,
        source=event.source,
        at=line.at or event.occurred_at,
        actor=cut(line.actor, 255),
        verb=cut(line.verb, 100),
        object=cut(line.object, 500),
        kind=table.__name__.lower() if table and resource else "",
        resource=resource or "",
        link=line.link,
    )


def _forget_digests(days: set[date], *, today: date) -> None:
    """Days that are over may have been summed up already. After the commit: who sums up again then sees these lines,
    and the mutation does not collide with its neighbours over this small table."""
    late = sorted(day for day in days if day < today)
    if late:
        transaction.on_commit(lambda: ActivityDigest.objects.filter(day__in=late).delete(), robust=True)
