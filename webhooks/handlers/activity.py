"""Emitting activity: one line for what people would want to read of an event."""

from dataclasses import dataclass
from datetime import date, datetime
from functools import partial

from django.db import transaction

from live import operations as live
from webhooks.handlers.registry import Event
from webhooks.models import Activity
from webhooks.queries import activity as queries

TOPIC = "activity"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityEntry:
    """Who did what to what. `kind` and `resource` name the row that it speaks of; `link` is https or ""."""

    verb: str
    object: str
    actor: str = ""
    at: datetime | None = None  # None: when the event occurred
    kind: str = ""
    resource: str = ""
    link: str = ""


def emit(event: Event, *entries: ActivityEntry) -> None:
    """Emit entries for a delivery, in its transaction. Those that it emitted before a replay stay as they are."""
    if not entries:
        return
    rows = [_row(event, n, entry) for n, entry in enumerate(entries)]
    queries.write(rows)
    live.touch(TOPIC)
    _forget_digests({row.at.date() for row in rows}, today=event.received_at.date())


def _row(event: Event, n: int, entry: ActivityEntry) -> Activity:
    return Activity(
        delivery_id=event.pk,
        n=n,
        source=event.source,
        at=entry.at or event.occurred_at,
        actor=_cut(entry.actor, 255),
        verb=_cut(entry.verb, 100),
        object=_cut(entry.object, 500),
        kind=entry.kind,
        resource=entry.resource,
        link=entry.link,
    )


def _forget_digests(days: set[date], *, today: date) -> None:
    """Days that are over may have been summed up already. After the commit: who sums up again then sees these lines,
    and the mutation does not collide with its neighbours over this small table."""
    late = sorted(day for day in days if day < today)
    if late:
        transaction.on_commit(partial(queries.forget_digests, *late), robust=True)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
