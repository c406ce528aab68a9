"""Stored deliveries: as the events that handlers and rules get, and the topics that they make stale."""

from collections.abc import Iterable
from typing import Any, Final

from live import operations as live
from observing.logs import sentence_of
from scheduling import operations as scheduling
from webhooks.domain import bodies
from webhooks.domain.deliveries import Source
from webhooks.errors import WebhooksError
from webhooks.handlers.registry import Event

LONGEST_ERROR = 2_000
DRAIN: Final = "sandbox queue drain"  # the cron that processes telemetry
DRAINED_WITHIN_S: Final = 30.0


def opened(row: Any) -> tuple[Event, Any]:
    """The event of a row of `sql/take.sql` or `inbox.with_body`, and its body's document. Raises NotJson."""
    document = bodies.parse(row.body, content_type=row.content_type or "").document
    body = document
    if row.source == Source.SANDBOX_TELEMETRY:
        body = {"items": document if isinstance(document, list) else [document]}
    event = Event(
        source=row.source, type=row.event_type, delivery_id=row.delivery_id, body=body,
        occurred_at=row.occurred_at or row.received_at, received_at=row.received_at, pk=row.id, sandbox=row.sandbox,
    )  # fmt: skip
    return event, document


def sentence(error: Exception, *, ours: tuple[type[Any], ...] = (WebhooksError,)) -> str:
    """The error in words that PostgreSQL takes; one of `ours` says them itself."""
    message = error.message if isinstance(error, ours) else sentence_of(error)
    return text(message, LONGEST_ERROR)


def text(message: str, most: int) -> str:
    """Its first `most` characters, or its last if that is negative."""
    cut = message[:most] if most > 0 else message[most:]
    return cut.replace("\x00", "\N{SYMBOL FOR NULL}").encode("utf-8", "replace").decode("utf-8")


def touch(deliveries: Iterable[int], *, sources: Iterable[str]) -> None:
    """Say that deliveries came, or have another status: inside the transaction, published after its commit."""
    live.touch(
        "deliveries", *(f"delivery:{pk}" for pk in deliveries), *(f"webhook-source:{source}" for source in set(sources))
    )


def drain_soon() -> None:
    scheduling.hasten(DRAIN, within_s=DRAINED_WITHIN_S)
