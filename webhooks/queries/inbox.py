"""Statements about deliveries, refusals and what of them waits."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from django.contrib.postgres.search import SearchQuery
from django.db import OperationalError, transaction
from django.db.models import F, Q, QuerySet
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Now

from postgres import statements, transactions
from webhooks.domain.deliveries import ENDED_WELL, REPLAYABLE, Filter, Source, Status
from webhooks.models import Delivery, Refusal

Row = statements.Row
LOCKED_MS = 200  # a count is over in a moment, an attempt may take its time
SOURCES = [source.value for source in Source]  # all of them: indexes begin with the source


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDelivery:
    """A request that was verified, as it is to be stored. `note` says why a rejected one was."""

    source: Source
    delivery_id: str
    event_type: str
    status: Status
    note: str | None
    body: bytes = field(repr=False)
    body_sha256: bytes
    headers: dict[str, str]
    address: str | None
    secret: int | None
    sandbox: str | None
    occurred_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """How one attempt ended. `wait_s` is the time to the next one, if there is to be one."""

    id: int
    row_pointer: str
    number: int
    attempts: int
    started_at: datetime
    outcome: str
    status: Status
    note: str | None = None
    wait_s: float | None = None
    words: str | None = None
    error: str | None = None
    error_class: str | None = None
    traceback: str | None = None


def keep(new: Sequence[NewDelivery]) -> list[Row]:
    """Store what is not there yet and whose secret lives; rows of `id row_pointer source delivery_id status`."""
    columns: dict[str, list[Any]] = {
        column: [getattr(one, column) for one in new] for column in NewDelivery.__dataclass_fields__
    }
    columns["body"] = statements.Binaries(one.body for one in new)
    columns["headers"] = [json.dumps(one.headers) for one in new]
    columns["source"] = [one.source.value for one in new]
    columns["status"] = [one.status.value for one in new]
    return statements.load("webhooks", "keep").run(columns)


def count_duplicates(new: Sequence[NewDelivery]) -> list[Row]:
    """Count those that are there already; rows of `position` (from 1) `id row_pointer was comes_again source`. One that
    somebody processes for long is found, and not counted: all others of the batch would wait for that, too."""
    params = {
        "source": [one.source.value for one in new],
        "delivery_id": [one.delivery_id for one in new],
        "body_sha256": [one.body_sha256 for one in new],
    }
    counting = statements.load("webhooks", "count_duplicates")
    try:
        with transaction.atomic(), transactions.waiting_at_most(LOCKED_MS):
            return counting.run(params)
    except OperationalError as error:
        if not transactions.is_passing(error) or transactions.collided(error):
            raise
        return replace(counting, sql=counting.sql.replace("FOR UPDATE", "FOR UPDATE SKIP LOCKED")).run(params)


def count_refusal(
    *, source: Source, reason: str, address: str | None, size: int | None, header_names: Sequence[str], times: int
) -> None:
    """Count so many refused requests; the address, the size and the headers are those of the last."""
    params = {"source": source.value, "reason": reason, "address": address, "bytes": size, "times": times}
    names = json.dumps([name[:60] for name in sorted(header_names)[:30]])
    statements.load("webhooks", "count_refusal").run(params | {"header_names": names})


def take(delivery: int, *, row_pointer: str) -> Row | None:
    where = "id = %(id)s FOR UPDATE"
    rows = _take(f"ctid = %(row_pointer)s::tid AND {where}").run({"id": delivery, "row_pointer": row_pointer})
    rows = rows or _take(where).run({"id": delivery})
    return rows[0] if rows else None


def take_waiting(deliveries: Sequence[int]) -> list[Row]:
    """Lock those of them that wait for their first attempt and that nobody else has."""
    which = "id = ANY(%(ids)s::bigint[]) AND status = 'received' ORDER BY id FOR UPDATE SKIP LOCKED"
    return _take(which).run({"ids": list(deliveries)})


@cache
def _take(which: str) -> statements.Statement:
    general = statements.load("webhooks", "take")
    return replace(general, sql=general.sql.replace("{which}", which))


def settle(settlement: Settlement) -> str:
    """Write how an attempt ended, on a row that this transaction has locked; where it lies now."""
    params = {name: getattr(settlement, name) for name in Settlement.__dataclass_fields__}
    [row] = statements.load("webhooks", "settle").run(params | {"status": settlement.status.value})
    row_pointer: str = row.row_pointer
    return row_pointer


def lock(delivery: int) -> Delivery | None:
    return Delivery.objects.select_for_update().defer("body", "search").filter(pk=delivery).first()


def with_body(delivery: int) -> Delivery | None:
    """A delivery with its body, and its `content_type` as `take` has it, to be looked at."""
    rows = Delivery.objects.defer("search").annotate(content_type=KeyTextTransform("content-type", "headers"))
    row = rows.filter(pk=delivery).first()
    if row is not None:
        row.body = bytes(row.body)
    return row


def requeue(deliveries: Sequence[int], *, with_jobs: bool) -> dict[int, str]:
    """Let these wait for a first attempt again; where each lies now. `with_jobs`: let that start their jobs again.
    Without it only those start jobs of which no attempt has ended well yet."""
    params = {"ids": list(deliveries), "with_jobs": with_jobs, "ended_well": list(ENDED_WELL)}
    return {row.id: row.row_pointer for row in statements.load("webhooks", "requeue").run(params)}


def matching(wanted: Filter) -> QuerySet[Delivery]:
    """The deliveries that a filter names, newest first, without their bodies. Rejected ones too, if asked for."""
    rows = Delivery.objects.defer("body", "search")
    exact = {"source": wanted.source, "event_type": wanted.event_type, "sandbox": wanted.sandbox}
    rows = rows.filter(**{name: value for name, value in exact.items() if value})
    if wanted.statuses:
        rows = rows.filter(status__in=wanted.statuses)
    if wanted.received_from:
        rows = rows.filter(received_at__gte=wanted.received_from)
    if wanted.received_to:
        rows = rows.filter(received_at__lt=wanted.received_to)
    if wanted.text:
        rows = rows.filter(with_text(wanted.text))
    return rows.order_by("-id")


def with_text(text: str) -> Q:
    """What has these words in its body, or this text as its id or type."""
    words = Q(search=SearchQuery(text, config="simple", search_type="websearch"))
    named = {"source__in": SOURCES}
    return words | Q(delivery_id=text, **named) | Q(event_type=text, **named)


def replayable(wanted: Filter) -> QuerySet[Delivery]:
    unreadable = Q(status=Status.REJECTED, tries=0)
    return matching(wanted).filter(~unreadable, status__in=REPLAYABLE).order_by("id")


def stuck(*, function: str, late_s: float, limit: int) -> list[Row]:
    """Deliveries that nothing is going to process; rows of `id row_pointer source error`."""
    params = {"function": function, "late_s": late_s, "limit": limit}
    return statements.load("webhooks", "stuck").run(params)


def refusals(*, since: timedelta) -> QuerySet[Refusal]:
    return Refusal.objects.filter(hour__gte=Now() - since).order_by(F("last_at").desc())


def day_of_sources(*, start: datetime, stop: datetime) -> list[Row]:
    """How each source did; rows of `name ended succeeded latency_p50_s latency_p95_s backlog`."""
    params = {"start": start, "stop": stop, "sources": [source.value for source in Source]}
    return statements.load("webhooks", "day_of_sources").run(params)
