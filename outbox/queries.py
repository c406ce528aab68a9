"""Statements of the outbox."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Q
from django.db.models.functions import Now

from outbox.domain.events import patterns_of
from outbox.models import EndpointSecret
from postgres import arrays, statements

Row = statements.Row
_LIVE = Q(retired_at=None) | Q(retired_at__gt=Now())
_COLUMNS = (
    *("uid", "type", "subject", "job_id", "kind", "owner_id", "group_id", "occurred_at"),
    *("data", "data_with_result"),
)


def listens() -> bool:
    """Whether there is an endpoint that is not disabled."""
    [row] = statements.load("outbox", "listens").run()
    return bool(row.listens)


def record(events: Sequence[Mapping[str, Any]], *, only: int | None) -> list[Row]:
    """Write these events for whoever asks for them; a row of `id` and `endpoint_id` for each message."""
    columns: dict[str, Any] = {name: arrays.literal(event[name] for event in events) for name in _COLUMNS}
    columns["patterns"] = arrays.literal(_array(patterns_of(event["type"])) for event in events)
    return statements.load("outbox", "record").run(columns | {"only": only})


def notify() -> None:
    """Wake the senders, and wait for nothing."""
    statements.load("outbox", "notify").post({})


def _array(words: Sequence[str]) -> str:
    return "{" + ",".join(words) + "}"


def add_secret(endpoint_id: int, *, sealed: bytes, fingerprint: str) -> None:
    """Store a secret."""
    EndpointSecret.objects.create(endpoint_id=endpoint_id, sealed=sealed, fingerprint=fingerprint)


def live_secrets(endpoint_id: int) -> list[EndpointSecret]:
    """The secrets that sign now, the newest first."""
    return list(EndpointSecret.objects.filter(_LIVE, endpoint_id=endpoint_id).order_by("-id"))


def retire_secrets(endpoint_id: int, *, at: datetime) -> None:
    """Let all its secrets sign no more from a moment on. One that was set is only ever brought forward."""
    later = Q(retired_at=None) | Q(retired_at__gt=at)
    EndpointSecret.objects.filter(later, endpoint_id=endpoint_id).update(retired_at=at)
