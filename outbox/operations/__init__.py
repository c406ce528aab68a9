"""What can be done with the outbox. Each function is one use case, in one transaction unless it says otherwise."""

from outbox.domain.addresses import Target, target
from outbox.domain.answers import Answer
from outbox.domain.events import PATTERNS, TYPES
from outbox.errors import BadUrl, OutboxError
from outbox.operations.record import NO_RESULT, NewEvent, listens, record, record_all
from outbox.operations.requests import send

__all__ = [
    "NO_RESULT",
    "PATTERNS",
    "TYPES",
    "Answer",
    "BadUrl",
    "NewEvent",
    "OutboxError",
    "Target",
    "listens",
    "record",
    "record_all",
    "send",
    "target",
]
