from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import DateTimeField, Q, QuerySet
from django.db.models.functions import Greatest, Now

from outbox.domain.messages import REPLAYABLE, EndpointStatus, Filter, Outcome, Status, patterns_of
from outbox.models import Attempt, Endpoint, EndpointSecret, Message
from postgres import arrays, statements
from scheduling.queries.pages import Chain

Row = statements.Row
COUNTED = 1000
_LIVE = Q(retired_at=None) | Q(retired_at__gt=Now())


def listens() -> bool:
    """Whether any endpoint could get an event: ask before gathering its data. One short statement."""
    return bool(statements.load("outbox", "listens").run()[0].listens)


def find_callback(url: str, *, owner_id: int | None) -> int | None:
    """The id of the endpoint that an owner's submits with this address made. No retention removes it before the
    caller's transaction ends."""
    rows = statements.load("outbox", "find_callback").run({"url": url, "owner_id": owner_id})
    return rows[0].id if rows else None


def record(events: Sequence[Mapping[str, Any]], *, only: int | None) -> list[Row]:
    columns: dict[str, Any] = {name: arrays.literal(event[name] for event in events) for name in events[0]}
    columns["patterns"] = arrays.literal(f"{{{','.join(patterns_of(event['type']))}}}" for event in events)
    return statements.load("outbox", "record").run(columns | {"only": only})


def notify() -> None:
    statements.load("outbox", "notify").post({})


def retire_secrets(endpoint_id: int, *, at: datetime, but: int = 0) -> None:
    """Let all its secrets, but the newest so many, sign no more from a moment on. One that was set is only ever brought
    forward."""
    later = Q(retired_at=None) | Q(retired_at__gt=at)
    rows = EndpointSecret.objects.filter(later, endpoint_id=endpoint_id)
    newest = list(rows.order_by("-id").values_list("pk", flat=True)[:but])
    rows.exclude(pk__in=newest).update(retired_at=at)


def claim(*, limit: int, per_endpoint: int, per_owner: int, lease_s: float) -> list[Row]:
    """Lease up to `limit` due messages; rows with all that sending one takes but the secrets."""
    params = {"limit": limit, "per_endpoint": per_endpoint, "per_owner": per_owner, "lease_s": lease_s}
    return statements.load("outbox", "claim").run(params)


def put_behind(*, most: int, again_s: float) -> int:
    """Have what waits for an earlier message of its subject be due later, of each endpoint among its first so many that
    are due; how many those were. They are due at once when that one has ended (`unblock`), and after so long anyway."""
    return len(statements.load("outbox", "put_behind").run({"most": most, "again_s": again_s}))


def unblock(ended_ids: Collection[int]) -> None:
    """Let the next of the subjects of these messages, which have ended, be due now."""
    statements.load("outbox", "unblock").run({"ids": arrays.plain(ended_ids)})


def next_due_s() -> float | None:
    """In how many seconds something becomes due that is not yet; None: nothing will by itself."""
    [row] = statements.load("outbox", "next_due").run()
    return None if row.in_s is None else float(row.in_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What one attempt came to. `wait_s` is the time to the next one of a message that stays pending."""

    id: int
    lease: UUID
    status: Status
    outcome: Outcome
    started_at: datetime
    duration_ms: int
    wait_s: float | None = None
    http_status: int | None = None
    error: str = ""
    answer: str = ""
    note: str = ""


def settle(settlements: Sequence[Settlement]) -> list[Row]:
    """Write these, and let what waited for those that have ended be due; rows of `id status` of those whose leases
    held, without a status of what somebody has locked: that is not written. In the caller's transaction."""
    names = Settlement.__dataclass_fields__
    columns = {name: arrays.literal(getattr(one, name) for one in settlements) for name in names}
    settled = statements.load("outbox", "settle").run(columns)
    if ended := [row.id for row in settled if row.status not in {None, Status.PENDING}]:
        unblock(ended)
    return settled


def release(leases: Collection[tuple[int, UUID]]) -> None:
    params = {"id": arrays.plain(pk for pk, _ in leases), "lease": arrays.plain(lease for _, lease in leases)}
    statements.load("outbox", "release").run(params)


def hold(endpoint_id: int, *, wait: timedelta) -> None:
    """Leave an endpoint, unless somebody has it locked, alone for so long; never shorter than it was to be before."""
    until = Greatest(Now() + wait, "held_until", output_field=DateTimeField())
    _unlocked(Endpoint.objects.filter(pk=endpoint_id)).update(held_until=until)


def failing(*, for_s: float, limit: int) -> list[Endpoint]:
    """The active endpoints of which no attempt has succeeded for so long, those that fail longest first."""
    since = Now() - timedelta(seconds=for_s)
    rows = Endpoint.objects.filter(status=EndpointStatus.ACTIVE, failing_since__lte=since)
    return list(rows.order_by("failing_since", "pk")[:limit])


def end_waiting(endpoint_id: int, *, note: str) -> int:
    """Let what waits for an endpoint be dead; how many that were. What a sender has goes on, and what somebody has
    locked is dead when it is due (sql/claim.sql)."""
    waiting = Message.objects.filter(endpoint_id=endpoint_id, status=Status.PENDING, lease=None)
    return _unlocked(waiting).update(status=Status.DEAD, next_attempt_at=None, ended_at=Now(), note=note)


def _unlocked(rows: QuerySet[Any]) -> QuerySet[Any]:
    return QuerySet(rows.model).filter(pk__in=rows.select_for_update(no_key=True, skip_locked=True).values("pk"))


def requeue(message_ids: Sequence[int]) -> int:
    """Let those of these that have ended be sent once more, from a first attempt on; how many that were."""
    ended = Message.objects.filter(pk__in=message_ids, status__in=REPLAYABLE)
    return ended.update(status=Status.PENDING, attempts=0, next_attempt_at=Now(), lease=None, ended_at=None, note="")


def hasten(endpoint_id: int) -> None:
    """Let what waits for this endpoint, or for another attempt at it, be due now."""
    Endpoint.objects.filter(pk=endpoint_id).update(held_until=None)
    Message.objects.filter(endpoint_id=endpoint_id, status=Status.PENDING, lease=None).update(next_attempt_at=Now())


def counted(endpoints: Sequence[Endpoint]) -> Sequence[Endpoint]:
    """These, each with how many of its messages are `waiting` and `dead`, counted up to COUNTED, and when one was
    delivered last (`last_delivered_at`)."""
    rows = statements.load("outbox", "counts").run({"ids": [row.pk for row in endpoints], "most": COUNTED})
    by_id = {row.id: row for row in rows}
    for one in endpoints:
        vars(one).update(by_id[one.pk]._asdict())
    return endpoints


def health() -> Row:
    return statements.load("outbox", "health").run()[0]


def live_secrets(endpoint_ids: Collection[int]) -> QuerySet[EndpointSecret]:
    return EndpointSecret.objects.filter(_LIVE, endpoint_id__in=endpoint_ids).order_by("-id")


def page(messages: QuerySet[Message], *, before: int, limit: int) -> list[Message]:
    rows = messages.filter(pk__lt=before) if before else messages
    columns = rows.select_related("event", "endpoint").defer("event__body", "event__body_with_result")
    return list(columns.order_by("-pk")[:limit])


def message(message_id: int) -> Message | None:
    return Message.objects.select_related("event", "endpoint").filter(pk=message_id).first()


def waits_for(row: Message) -> int | None:
    """The message of its endpoint and subject that has to end before this one is sent."""
    earlier = Message.objects.filter(
        endpoint_id=row.endpoint_id, subject=row.subject, status=Status.PENDING, pk__lt=row.pk
    )
    return earlier.order_by("-pk").values_list("pk", flat=True).first()


def body_of(row: Message) -> str:
    return str((row.endpoint.with_result and row.event.body_with_result) or row.event.body)


def attempts(message_id: int) -> list[Attempt]:
    return list(Attempt.objects.filter(message_id=message_id).order_by("-number"))


class Replay(Chain):
    FUNCTION = "outbox.operations.replays.replay_batch"

    @property
    def wanted(self) -> Filter:
        return Filter.read(**self.arguments["wanted"])

    @property
    def by(self) -> int:
        return int(self.arguments["by"])
