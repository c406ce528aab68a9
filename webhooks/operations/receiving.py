"""Receiving: what was verified is stored, and its processing scheduled, in one transaction; then it is answered.

`judge` needs no database where the process knows the secrets. `keep` is the transaction, for many requests at once:
those that come while one batch commits are the next.
"""

import hashlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from django.conf import settings
from django.db import transaction

from postgres import transactions
from scheduling.operations.scheduling import insert, new
from webhooks.domain import parsing
from webhooks.domain.names import Source
from webhooks.domain.states import Status
from webhooks.errors import BadEnvelope, BadSignature, NoSecret, NotJson
from webhooks.operations import announcing, processing, tokens
from webhooks.operations.secrets import keyring
from webhooks.queries import inbox
from webhooks.queries import secrets as secret_queries
from webhooks.queries.inbox import NewDelivery
from webhooks.sources import senders
from webhooks.sources.requests import LONGEST_ID, Envelope, Key, Request, Verified

_AHEAD = timedelta(minutes=5)
_LONGEST_REASON = 500
# A transaction that stores runs again when it collides: two batches may hold the same deliveries.
_TRIES = 3
_NOTED_EVERY_S = secret_queries.USE_NOTED_EVERY.total_seconds()
_noted_at: dict[int, float] = {}


class Verdict(StrEnum):
    """What became of a request."""

    RECEIVED = "received"
    DUPLICATE = "duplicate"
    REJECTED = "rejected"
    UNSIGNED = "unsigned"  # its secret was retired between the check and the insert


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What became of one request, and the delivery's id (0 if it was not stored). `note` says why it was rejected."""

    verdict: Verdict
    delivery: int = 0
    note: str | None = None


def judge(
    source: Source, request: Request, *, keys: Sequence[Key], address: str | None, now: datetime
) -> NewDelivery:
    """Verify a request and read its envelope.

    What is signed and cannot be read comes back as rejected, to be stored as it is. Raises BadSignature, NoSecret.
    """
    if not keys:
        raise NoSecret(source=source)
    verified = senders.find_sender(source).verify(request, keys=keys, now=now)
    return _read(
        source, request, verified=verified, secret=verified.key_id, sandbox=None, address=address, now=now
    )


def judge_anew(source: Source, request: Request, *, address: str | None, now: datetime) -> NewDelivery:
    """As `judge`, by what the database says: the secrets as they are now, or a sandbox's bearer token."""
    if source is Source.SANDBOX_HOOKS and (token := _bearer(request)):
        sandbox = tokens.sandbox_of(token)
        verified = Verified(key_id=0)
        return _read(
            source, request, verified=verified, secret=None, sandbox=sandbox, address=address, now=now
        )
    return judge(source, request, keys=keyring.read(source), address=address, now=now)


def keep(deliveries: Sequence[NewDelivery]) -> list[Kept]:
    """Store requests that were judged, and schedule the processing of what is new, in one transaction of its own.

    One that is there already is counted, and processed again if it had failed or died. What each came to, in order.
    """
    for _ in range(_TRIES - 1):
        try:
            return _keep(deliveries)
        except Exception as error:
            if not transactions.collided(error):
                raise
    return _keep(deliveries)


def _read(
    source: Source,
    request: Request,
    *,
    verified: Verified,
    secret: int | None,
    sandbox: str | None,
    address: str | None,
    now: datetime,
) -> NewDelivery:
    digest = hashlib.sha256(request.body).digest()
    rejected: str | None = None
    try:
        document = parsing.parse(request.body, content_type=request.headers.get("content-type", "")).document
        envelope = senders.find_sender(source).envelope(request, document, verified=verified)
    except (NotJson, BadEnvelope) as error:
        rejected = error.message[:_LONGEST_REASON]
        envelope = Envelope(delivery_id=f"sha256:{digest.hex()}", event_type="", occurred_at=None)
    _refuse_replay(source, envelope, now=now)
    return NewDelivery(
        source=source,
        delivery_id=envelope.delivery_id[:LONGEST_ID],
        event_type=envelope.event_type,
        status=Status.REJECTED if rejected else Status.RECEIVED,
        note=rejected,
        body=request.body,
        body_sha256=digest,
        headers=_stored_headers(request),
        address=address,
        secret=secret,
        sandbox=sandbox,
        occurred_at=envelope.occurred_at,
    )


def _refuse_replay(source: Source, envelope: Envelope, *, now: datetime) -> None:
    """Where the signature has no time, the signed body's own bounds how long a captured request can be sent again."""
    if senders.find_sender(source).OLDEST_S is None or envelope.occurred_at is None:
        return
    oldest = settings.WEBHOOKS["ATLASSIAN_OLDEST_S"]
    if (now - envelope.occurred_at).total_seconds() > oldest:
        raise BadSignature(reason="too_old")
    if envelope.occurred_at - now > _AHEAD:
        raise BadSignature(reason="too_new")


def _stored_headers(request: Request) -> dict[str, str]:
    """What came, masked; and of the address what named the event."""
    headers = senders.redacted(request.headers)
    if "event" in request.query:
        headers["?event"] = request.query["event"][:LONGEST_ID]
    return headers


def _bearer(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _keep(deliveries: Sequence[NewDelivery]) -> list[Kept]:
    with transaction.atomic():
        stored = inbox.keep(deliveries)
        answers = _answers_to_new(deliveries, stored)
        known = [place for place, answer in enumerate(answers) if answer is None]
        repeated = inbox.count_duplicates([deliveries[place] for place in known]) if known else []
        for row in reversed(repeated):  # of two rows that are the same delivery, the older one answers
            place = known[row.position - 1]
            answers[place] = _answer_to_repeated(row, deliveries[place])
        _schedule(stored, repeated)
        _note_use(deliveries)
    return [answer or Kept(verdict=Verdict.UNSIGNED) for answer in answers]


def _answers_to_new(deliveries: Sequence[NewDelivery], stored: Sequence[Any]) -> list[Kept | None]:
    """For each of them the answer, or None if it was not stored. Of twins in one batch the first was."""
    left = {(row.source, row.delivery_id): row for row in stored}
    answers: list[Kept | None] = []
    for one in deliveries:
        row = left.pop((one.source.value, one.delivery_id), None)
        verdict = Verdict.REJECTED if one.status is Status.REJECTED else Verdict.RECEIVED
        answers.append(row and Kept(verdict=verdict, delivery=row.id, note=one.note))
    return answers


def _answer_to_repeated(row: Any, given: NewDelivery) -> Kept:
    if row.was == Status.REJECTED:
        return Kept(verdict=Verdict.REJECTED, delivery=row.id, note=given.note)
    return Kept(verdict=Verdict.DUPLICATE, delivery=row.id)


def _schedule(stored: Sequence[Any], repeated: Sequence[Any]) -> None:
    """Have them processed; telemetry waits for the cron that drains it."""
    again = {row.id: row for row in repeated if row.was in {Status.FAILED, Status.DEAD}}
    fresh = {row.id: row for row in stored if row.status == Status.RECEIVED}
    places = {row.id: row.place for row in repeated}
    wanted = [
        new(processing.process, {"delivery": row.id, "place": places.get(row.id, row.place)})
        for row in (fresh | again).values()
        if row.source != Source.SANDBOX_TELEMETRY
    ]
    if wanted:
        insert(wanted)
    rows = [*stored, *repeated]
    announcing.changed([row.id for row in rows], sources=[row.source for row in rows])


def _note_use(deliveries: Sequence[NewDelivery]) -> None:
    """Once a minute for each process and secret."""
    now = time.monotonic()
    used = {one.secret for one in deliveries if one.secret is not None}
    due = [secret for secret in used if now - _noted_at.get(secret, -math.inf) > _NOTED_EVERY_S]
    if due:
        secret_queries.note_use(due)
        _noted_at.update(dict.fromkeys(due, now))
