"""What came, as the edge hands it on; and time that passes at once."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Model

from scheduling import operations as scheduling
from scheduling.models import Due, ScheduledFunction
from webhooks.domain.deliveries import Source, Status
from webhooks.models import Delivery
from webhooks.operations import Kept, keep
from webhooks.queries.inbox import NewDelivery


def new(
    document: Any = None,
    *,
    source: Source = Source.GITHUB,
    delivery_id: str = "d-1",
    event_type: str = "probe",
    body: bytes | None = None,
    occurred_at: datetime | None = None,
) -> NewDelivery:
    """A request that was judged to be right."""
    given = json.dumps({"id": delivery_id} if document is None else document).encode() if body is None else body
    return NewDelivery(
        source=source,
        delivery_id=delivery_id,
        event_type=event_type,
        status=Status.RECEIVED,
        note=None,
        body=given,
        body_sha256=hashlib.sha256(given).digest(),
        headers={"content-type": "application/json"},
        address="192.0.2.1",
        secret=None,
        sandbox=None,
        occurred_at=occurred_at,
    )


def receive(*args: Any, **options: Any) -> Delivery:
    """Store one, and return its row."""
    [kept] = keep([new(*args, **options)])
    return Delivery.objects.get(pk=kept.delivery)


def keep_one(*args: Any, **options: Any) -> Kept:
    """Store one, and say what became of it."""
    [kept] = keep([new(*args, **options)])
    return kept


def pass_time() -> int:
    """Run everything that is scheduled, as if its time had come; how many functions."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE scheduling_due SET next_at = now() - interval '1 s', run_at = now() - interval '1 s'")
    return scheduling.run_due()


def pending() -> list[ScheduledFunction]:
    """What is scheduled, the oldest first."""
    ids = Due.objects.values_list("function_id", flat=True)
    return list(ScheduledFunction.objects.filter(pk__in=list(ids)).order_by("pk"))


def vacuum(model: type[Model]) -> None:
    """Let the planner know how small this table is. Autovacuum does so at any moment."""
    with connection.cursor() as cursor:
        cursor.execute(f"VACUUM {model._meta.db_table}")


@contextmanager
def reading_by_index() -> Iterator[None]:
    """This thread's connection plans as that of a mutation cluster (`scheduling.cluster.process_group`)."""
    with connection.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("RESET enable_seqscan")
