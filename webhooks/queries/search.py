"""Searches of the administration's list of deliveries, none of which reads the whole table."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Q, QuerySet

from scheduling.models import ScheduledFunction
from scheduling.queries import pages as scheduled
from webhooks.models import Delivery
from webhooks.queries import inbox, pages

PROCESS: Final = "webhooks.operations.processing.process"
MOST_RUNS_SCANNED: Final = 10_000  # scheduled functions among which those of one delivery are searched
_DISORDER: Final = timedelta(minutes=1)  # between ids and times of receipt, of transactions side by side
_BEYOND: Final = 2**63 - 1


def first_since(moment: datetime) -> int:
    """An id below which nothing was received at this moment or later; at most a minute's worth of ids too low."""
    return _first_since(moment - _DISORDER)


def end_before(moment: datetime) -> int:
    """An id from which on everything was received at this moment or later; at most a minute's worth too high."""
    return _first_since(moment + _DISORDER)


def with_words(rows: "QuerySet[Delivery]", text: str, *, or_pk: int | None) -> "QuerySet[Delivery]":
    """The deliveries that a search finds: our own number, or what `inbox.with_text` says."""
    if or_pk is not None:
        return rows.filter(Q(pk=or_pk) | Q(delivery_id=text, source__in=inbox.SOURCES))
    return pages.by_words(rows.filter(inbox.with_text(text)), text)


def runs_of(delivery: Delivery) -> Sequence[ScheduledFunction]:
    """The scheduled functions that processed a delivery or will, the newest first, as far as they are kept.

    No index leads from a delivery to them: they are searched among RUNS_LOOKED_AT that were scheduled while it was
    received and processed.
    """
    last = delivery.ended_at or delivery.received_at
    low, high = scheduled.first_since(delivery.received_at), scheduled.end_before(last)
    rows = ScheduledFunction.objects.filter(function=PROCESS, pk__gte=low, pk__lt=high).order_by("-pk")
    candidates = list(rows.values_list("pk", flat=True)[:MOST_RUNS_SCANNED])
    if not candidates:
        return []
    about = rows.filter(pk__gte=candidates[-1], args__contains={"delivery": delivery.pk})
    return list(about.only("pk", "status")[:20])


def _first_since(moment: datetime) -> int:
    later = Delivery.objects.filter(received_at__gte=moment).order_by("received_at", "pk")
    return later.values_list("pk", flat=True).first() or _BEYOND
