"""Attempts: what is due is leased, signed, and what became of it written. Sending itself is the sender's.

Both are done for many at once, so what of it fails is one message's failed attempt, with the reason at it.
"""

import json
import logging
import random
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from http import HTTPStatus
from itertools import chain
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import Q

from core.refusal import Refusal
from live import operations as live
from observing import fields
from outbox import queries
from outbox.domain import addresses, messages
from outbox.domain.addresses import Answer
from outbox.domain.messages import GONE, EndpointStatus, Outcome, Scheme, Status
from outbox.models import Endpoint
from outbox.operations.endpoints import mail_owner, secrets_of
from outbox.queries import Settlement
from postgres import clock, transactions
from ratelimits import operations as ratelimits
from scheduling import operations as scheduling

MARGIN_S: Final = 30.0  # of a lease beyond the deadline of its attempt: the farm's own way to write what came of it
# What waits behind a message is looked at again after so long, should the end of that one have been missed: a sender of
# an older version does not say it.
_AGAIN_S: Final = 600.0
_CHECKED: Final = 20  # of an endpoint at once: more than a claim takes of it
_CHECKS: Final = 1000  # before a claim: what is left then is looked at by the claim itself
_OWNERS: Final = 4  # so many people whose every endpoint hangs leave room for nobody else's
LIMIT: Final = "outbox/endpoint"
UNSENT: Final = "The farm could not send it: "
UNSIGNED: Final = "No secret of this endpoint can be opened: SECRET_KEY changed. Rotate the secret."
_RNG = random.SystemRandom()
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A message that this sender may send once, within its lease; `fault`: why it cannot be sent."""

    id: int
    lease: UUID
    endpoint_id: int
    attempts: int
    url: str = field(repr=False)
    body: bytes = field(repr=False)
    message_id: str
    event_type: str
    subject: str
    occurred_at: datetime
    secrets: Sequence[str] = field(repr=False)
    fault: str = ""

    @property
    def job_id(self) -> int | None:
        kind, _, number = self.subject.partition("/")
        return int(number) if kind == "job" and number.isdigit() else None

    def headers(self, *, now: datetime) -> dict[str, str]:
        return messages.headers(
            message_id=self.message_id, event_type=self.event_type, subject=self.subject,
            source=settings.OUTBOX["SOURCE"], occurred_at=self.occurred_at, body=self.body,
            secrets=self.secrets, now=now,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    claimed: Claimed
    started_at: datetime
    answer: Answer
    is_written: bool = False  # at the message; its endpoint is still to be judged by it


def claim(limit: int) -> list[Claimed]:
    """Lease up to `limit` messages that are due and that the limits of their endpoints let pass. An endpoint whose
    limit is used up is left alone until it grants again. What waits for an earlier message of its subject is put behind
    that one first: a claim would look at it each time."""
    for _ in range(_CHECKS):
        if not _put_behind():
            break
    return _claim(limit)


@transactions.retried
def _put_behind() -> int:
    return queries.put_behind(most=_CHECKED, again_s=_AGAIN_S)


@transactions.retried
def _claim(limit: int) -> list[Claimed]:
    lease_s = settings.OUTBOX["TIMEOUT_S"] + MARGIN_S
    per_endpoint = settings.OUTBOX["IN_FLIGHT_PER_ENDPOINT"]
    per_owner = max(per_endpoint, settings.OUTBOX["IN_FLIGHT"] // _OWNERS)
    rows = queries.claim(limit=limit, per_endpoint=per_endpoint, per_owner=per_owner, lease_s=lease_s)
    failures = scheduling.Failures()
    passed = _within_limits(rows, failures)
    keys = secrets_of({row.endpoint_id for row in passed}) if passed else {}
    return [_claimed(row, keys[row.endpoint_id], failures) for row in passed]


def hand_over(scheme: Scheme, claimed: Claimed) -> Answer:
    """Have an app of the farm take this message, as a receiver that answers 204; what it refuses it would refuse again,
    and says why in its answer."""
    began_s, body = time.monotonic(), b""
    owner = Endpoint.objects.select_related("owner").get(pk=claimed.endpoint_id).owner
    try:
        scheme.take(claimed.url, json.loads(claimed.body), message_id=claimed.message_id, owner=owner)
    except Refusal as refusal:
        body = f"It is for nobody. {refusal.message}".encode()
    return Answer(status=HTTPStatus.NO_CONTENT, body=body, duration_ms=round((time.monotonic() - began_s) * 1000))


def settle(ended: Sequence[Ended]) -> tuple[list[Outcome], list[Ended]]:
    """Write what these attempts came to, and what follows for their endpoints; the outcomes of those whose leases
    held, and what is to be settled later: somebody has its message or its endpoint locked. Together; or, where that
    fails, one by one, and what cannot be written of one is that one's failure."""
    if not ended:
        return [], []
    try:
        return _settle(ended)
    except Exception as error:
        if scheduling.is_away(error) or transactions.is_passing(error):
            raise
        if len(ended) == 1:
            return _settle([_unkept(ended[0], error)])
    outcomes, later = zip(*(settle([one]) for one in ended), strict=True)
    return [*chain(*outcomes)], [*chain(*later)]


def _unkept(ended: Ended, error: Exception) -> Ended:
    with fields.about(job_id=ended.claimed.job_id):
        log.error("what became of the message %d could not be written", ended.claimed.id, exc_info=error)
    reason = f"What it answered could not be kept: {type(error).__name__}."
    return replace(ended, answer=Answer(error=reason, duration_ms=ended.answer.duration_ms))


@transactions.retried
def _settle(ended: Sequence[Ended]) -> tuple[list[Outcome], list[Ended]]:
    now, new = clock.now(), [one for one in ended if not one.is_written]
    status = {row.id: row.status for row in queries.settle([_settlement(one, now=now) for one in new])}
    locked = [one for one in new if one.claimed.id in status and status[one.claimed.id] is None]
    written = [one for one in new if status.get(one.claimed.id)]
    counted = [one for one in ended if one.is_written] + written
    later = _judge_endpoints(counted, now=now)
    endpoints = {one.claimed.endpoint_id for one in counted}
    live.touch("outbox", *(f"endpoint:{pk}" for pk in endpoints), *(f"message:{one.claimed.id}" for one in written))
    return [_outcome(one.answer) for one in written], locked + later


def release(claimed: Collection[Claimed]) -> None:
    """Give back what a sender that ends has not sent, or of which nobody knows whether it was: it is sent again."""
    queries.release([(one.id, one.lease) for one in claimed])


def _within_limits(rows: Sequence[Any], failures: scheduling.Failures) -> list[Any]:
    """Those that may be sent now; the others go back. One whose limit cannot be asked passes, with a fault."""
    passed: list[Any] = []
    denied: list[Any] = []
    closed: set[int] = set()
    for row in rows:
        if row.per_minute is not None and row.endpoint_id not in closed:
            with failures.aside(f"endpoint {row.endpoint_id}"):
                if not _grants(row):
                    closed.add(row.endpoint_id)
        (denied if row.endpoint_id in closed else passed).append(row)
    if denied:
        queries.release([(row.id, row.lease) for row in denied])
    return passed


def _grants(row: Any) -> bool:
    """Whether its limit lets it pass; where it does not, or somebody has that locked, its endpoint is left alone."""
    bucket = ratelimits.TokenBucket(row.per_minute, timedelta(minutes=1), capacity=max(row.per_minute, 1.0))
    retry_after = None
    try:
        with transaction.atomic():
            answer = ratelimits.limit(LIMIT, key=str(row.endpoint_id), config=bucket)
        is_granted, retry_after = answer.ok, answer.retry_after
    except DatabaseError as error:
        if transactions.collided(error) or not transactions.is_passing(error):
            raise
        is_granted = False
    if not is_granted:
        queries.hold(row.endpoint_id, wait=retry_after or timedelta(seconds=1))
    return is_granted


def _claimed(row: Any, keys: Sequence[str], failures: scheduling.Failures) -> Claimed:
    reason = failures.reasons.get(f"endpoint {row.endpoint_id}")
    fault = f"{UNSENT}{reason}" if reason else "" if keys else UNSIGNED
    return Claimed(
        id=row.id, lease=row.lease, endpoint_id=row.endpoint_id, attempts=row.attempts, url=row.url,
        body=row.body.encode(), message_id=f"msg_{row.uid.hex}", event_type=row.type, subject=row.subject,
        occurred_at=row.occurred_at, secrets=keys, fault=fault,
    )  # fmt: skip


def _settlement(ended: Ended, *, now: datetime) -> Settlement:
    answer, claimed, outcome, wait_s = ended.answer, ended.claimed, _outcome(ended.answer), None
    if outcome is Outcome.FAILED:
        retry_after_s = answer.retry_after_s(now=now)
        wait_s = addresses.wait_s(attempts=claimed.attempts + 1, retry_after_s=retry_after_s, rng=_RNG)
    status = Status.DELIVERED if outcome is Outcome.DELIVERED else Status.DEAD
    return Settlement(
        id=claimed.id, lease=claimed.lease, status=status if wait_s is None else Status.PENDING, wait_s=wait_s,
        outcome=outcome, started_at=ended.started_at, duration_ms=answer.duration_ms, http_status=answer.status,
        error=answer.error, answer=answer.text, note="" if outcome is Outcome.DELIVERED else _note(answer),
    )  # fmt: skip


def _outcome(answer: Answer) -> Outcome:
    if answer.is_accepted:
        return Outcome.DELIVERED
    return Outcome.GONE if answer.status == 410 else Outcome.FAILED


def _note(answer: Answer) -> str:
    return answer.error or f"It answered {answer.status}."


def _judge_endpoints(ended: Sequence[Ended], *, now: datetime) -> list[Ended]:
    """Judge those that failed or recovered; what is left for later of those that somebody has locked: an answer each,
    one that it is gone before one that it took something before others."""
    took = {one.claimed.endpoint_id for one in ended if one.answer.is_accepted}
    refused = {one.claimed.endpoint_id for one in ended if not one.answer.is_accepted}
    changing = Endpoint.objects.filter(Q(pk__in=refused) | Q(pk__in=took, failing_since__isnull=False))
    ids = set(changing.values_list("pk", flat=True))
    # In one order, as several senders do it.
    mine = changing.select_for_update(no_key=True, skip_locked=True).order_by("pk") if ids else changing.none()
    for row in mine:
        _judge(row, [one.answer for one in ended if one.claimed.endpoint_id == row.pk], now=now)
        ids.remove(row.pk)
    weighty = sorted(ended, key=lambda one: (one.answer.status == HTTPStatus.GONE, one.answer.is_accepted))
    last = {one.claimed.endpoint_id: one for one in weighty}
    return [replace(last[pk], is_written=True) for pk in ids]


def _judge(endpoint: Endpoint, answers: Sequence[Answer], *, now: datetime) -> None:
    """Clear, note or end the failing of an endpoint, which is locked; and leave it alone if it asked for that."""
    before, hours = endpoint.status, settings.OUTBOX["PAUSE_AFTER_HOURS"]
    if any(answer.is_accepted for answer in answers):
        endpoint.failing_since, endpoint.last_failure = None, ""
    else:
        endpoint.failing_since, endpoint.last_failure = endpoint.failing_since or now, _note(answers[-1])
        if before == EndpointStatus.ACTIVE and now - endpoint.failing_since >= timedelta(hours=hours):
            endpoint.status = EndpointStatus.PAUSED
            endpoint.note = f"Every attempt of {hours:g} h failed. What happens is kept; resume it when it is well."
    if before != EndpointStatus.DISABLED and any(answer.status == HTTPStatus.GONE for answer in answers):
        endpoint.status, endpoint.note = EndpointStatus.DISABLED, GONE
        queries.end_waiting(endpoint.pk, note=GONE)
    if seconds := max(answer.retry_after_s(now=now) or 0.0 for answer in answers):
        endpoint.held_until = max(now + timedelta(seconds=seconds), endpoint.held_until or now)
    endpoint.save(update_fields=["failing_since", "last_failure", "status", "note", "held_until"])
    if endpoint.status != before:
        scheduling.run_after(0, mail_owner, endpoint=endpoint.pk)
