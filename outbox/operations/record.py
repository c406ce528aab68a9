"""Events, written by the transaction that makes them true."""

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Final

from django.conf import settings

from accounts.operations import audit_line
from live import operations as live
from outbox import queries
from outbox.domain.messages import LONGEST_SUBJECT, TYPES
from postgres.transactions import Gathered

_LONGEST_ERROR: Final = 2000
_due = Gathered(lambda _: queries.notify())


class _Result(Enum):
    """Instead of a result, which may be null."""

    NONE = "none"
    TOO_LARGE = "too large"


NO_RESULT: Final = _Result.NONE
TOO_LARGE: Final = _Result.TOO_LARGE


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """Something that happened. `data` is JSON, `subject` what it is about ("job/7"): those of one subject are sent in
    the order in which they were written. `job_id`, `kind`, `owner_id` and `group_id` decide who may get it; without an
    owner or a group only endpoints of the whole farm do. `result` goes to endpoints that ask for results."""

    type: str
    subject: str
    data: dict[str, Any]
    job_id: int | None = None
    kind: str | None = None
    owner_id: int | None = None
    group_id: int | None = None
    result: Any = NO_RESULT
    occurred_at: datetime | None = None  # None: now, by the database's clock
    uid: uuid.UUID = field(default_factory=uuid.uuid4)

    def __post_init__(self) -> None:
        if self.type not in TYPES:
            raise ValueError(f"there is no type of event {self.type!r}; outbox.domain.messages has them")


def record(
    event_type: str, subject: str, data: dict[str, Any], *, owner: Any = None, group: Any = None,
    kind: str | None = None, occurred_at: datetime | None = None,
) -> int:  # fmt: skip
    """Write an event in the caller's transaction, for each endpoint that asks for it; for how many that was.

    It is sent if and only if the transaction commits, at least once, under one id. `owner` and `group` are rows of User
    and Group; without both the event is the whole farm's. Raises ValueError for a type that `outbox.domain.messages`
    does not have, TypeError for `data` that is no JSON.
    """
    event = NewEvent(
        type=event_type, subject=subject, data=data, kind=kind, occurred_at=occurred_at,
        owner_id=None if owner is None else owner.pk, group_id=None if group is None else group.pk,
    )  # fmt: skip
    return record_all([event]) if queries.listens() else 0


def record_audit(line: int) -> None:
    if queries.listens():
        data = audit_line(line)
        record(f"audit.{data['event']}", f"audit/{line}", data)


def record_cron_failure(cron: str, function_id: int, error: str) -> None:
    data = {"cron": cron, "function_id": function_id, "error": error[:_LONGEST_ERROR]}
    record("cron.failed", f"cron/{cron}", data)


def record_all(events: Sequence[NewEvent], *, only: int | None = None) -> int:
    """As `record`, many in one statement; how many messages were written. `only`: for this endpoint alone."""
    if not events:
        return 0
    messages = queries.record([_columns(event) for event in events], only=only)
    if messages:
        wake()
        live.touch("outbox", *(f"endpoint:{row.endpoint_id}" for row in messages))
    return len(messages)


def wake() -> None:
    """Wake the senders after the commit, once for a transaction. A message that is lost costs the wait until they look
    by themselves."""
    _due.add(["outbox"])


def _columns(event: NewEvent) -> dict[str, Any]:
    same = ("type", "job_id", "kind", "owner_id", "group_id", "occurred_at")
    texts = {"uid": str(event.uid), "subject": event.subject[:LONGEST_SUBJECT]}
    data = {"data": _json(event.data), "data_with_result": _with_result(event)}
    return {name: getattr(event, name) for name in same} | texts | data


def _with_result(event: NewEvent) -> str | None:
    """The data with the result, or with why it is not there; None where there is none."""
    if event.result is NO_RESULT:
        return None
    most: int = settings.OUTBOX["RESULT_BYTES"]
    if event.result is TOO_LARGE or len(_json(event.result)) > most:  # it is ASCII
        return _json({**event.data, "result_omitted": f"it has more than {most} bytes"})
    return _json({**event.data, "result": event.result})


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))
