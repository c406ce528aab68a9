"""Replaying: a message that has ended is sent once more, because a person says so; and how long messages are kept."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet

from core import audit
from live import operations as live
from outbox import queries
from outbox.domain.events import TYPES
from outbox.domain.states import REPLAYABLE, EndpointStatus, Status
from outbox.errors import CannotReplay, NotAllowed, NotFound
from outbox.models import Message
from outbox.operations import endpoints
from outbox.operations.record import wake
from scheduling.operations import action

MOST: Final = 10_000  # by one replay of all that match
_BATCH: Final = 500
_BATCHES: Final = 200  # in one run of `retain`


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which messages somebody means; what is left empty does not narrow."""

    endpoint: int | None = None
    status: Status | None = None
    event_type: str = ""
    subject: str = ""

    def of(self, messages: QuerySet[Message]) -> QuerySet[Message]:
        """Those of the messages that match."""
        fields: dict[str, Any] = {
            "endpoint_id": self.endpoint, "status": self.status, "event__type": self.event_type,
            "subject": self.subject,
        }  # fmt: skip
        return messages.filter(**{name: value for name, value in fields.items() if value})

    def sentence(self) -> str:
        """The filter in words, for the audit line."""
        parts = [
            self.status or "",
            self.event_type,
            self.subject,
            f"endpoint {self.endpoint}" if self.endpoint else "",
        ]
        return ", ".join(filter(None, parts)) or "everything"

    @classmethod
    def read(
        cls, *, endpoint: int | None = None, status: str = "", event_type: str = "", subject: str = ""
    ) -> "Filter":
        """The filter of a form or an address; what is unknown there does not narrow."""
        known = Status(status) if status in set(Status) else None
        kind = event_type if event_type in TYPES else ""
        return cls(
            endpoint=endpoint, status=known, event_type=kind, subject=subject.replace("\x00", "")[:200]
        )


@transaction.atomic
def replay(message_id: int, *, by: User) -> Message:
    """Send a message once more, with the id and the body it had; its history stays. Raises NotFound, CannotReplay."""
    row = endpoints.messages_visible_to(by).select_for_update(of=("self",)).filter(pk=message_id).first()
    if row is None:
        raise NotFound(resource="message")
    if not endpoints.may_operate(by, row.endpoint):
        raise NotAllowed
    if row.status not in REPLAYABLE:
        raise CannotReplay
    queries.requeue(Message.objects.filter(pk=row.pk))
    audit.record(by, row.endpoint, f"Replayed message {row.pk}, which was {row.status}")
    _announce([row.endpoint_id], [row.pk])
    row.refresh_from_db()
    return row


def count_matching(wanted: Filter, *, by: User) -> int:
    """How many messages `replay_matching` would send again now, at most `MOST`."""
    return _replayable(wanted, by)[:MOST].count()


@transaction.atomic
def replay_matching(wanted: Filter, *, by: User) -> int:
    """Send every message that matches and has ended once more, oldest first, the first `MOST` of them; how many."""
    chosen = list(_replayable(wanted, by).order_by("pk").values_list("pk", "endpoint_id")[:MOST])
    count = queries.requeue(Message.objects.filter(pk__in=[pk for pk, _ in chosen], status__in=REPLAYABLE))
    touched = {endpoint_id for _, endpoint_id in chosen}
    for endpoint in endpoints.visible_to(by).filter(pk__in=touched):
        audit.record(by, endpoint, f"Replayed messages: {wanted.sentence()}")
    _announce(touched, [])
    return count


@action(idempotent=True, own_writes=True)
def retain() -> int:
    """Delete messages that ended longer ago than OUTBOX_RETENTION_DAYS, then events of which none is left; how many
    messages."""
    age_s = settings.OUTBOX["RETENTION_DAYS"] * 86400.0
    done = _in_batches(queries.retain, age_s)
    _in_batches(queries.retain_events, age_s)
    _in_batches(queries.retain_callbacks, age_s)
    return done


def _replayable(wanted: Filter, by: User) -> QuerySet[Message]:
    messages = endpoints.messages_visible_to(by).filter(status__in=REPLAYABLE)
    if not endpoints.is_operator(by):
        messages = messages.filter(endpoint__owner=by)
    return wanted.of(messages).exclude(endpoint__status=EndpointStatus.DISABLED)


def _announce(endpoint_ids: Any, message_ids: list[int]) -> None:
    wake()
    live.touch("outbox", *(f"endpoint:{pk}" for pk in endpoint_ids), *(f"message:{pk}" for pk in message_ids))


def _in_batches(step: Callable[..., int], age_s: float) -> int:
    done = 0
    for _ in range(_BATCHES):
        done += (handled := step(age_s=age_s, limit=_BATCH))
        if handled < _BATCH:
            break
    return done
