"""Ingest: what was verified is stored, and its processing scheduled, in one transaction; then it is answered.

`verify` and `opened` need no database where the process knows the secrets. `keep` is the transaction, for many requests
at once: those that come while one batch commits are the next.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from django.conf import settings
from django.db import transaction

from core.recent import Recent
from live import operations as live
from postgres import transactions
from scheduling.operations.functions import insert, new
from webhooks.domain.deliveries import LONGEST, Source, Status, within
from webhooks.errors import BadSignature, CannotOpen, NoSecret
from webhooks.models import Secret
from webhooks.operations import attempts, secrets
from webhooks.operations.deliveries import drain_soon, text, touch
from webhooks.queries import inbox
from webhooks.queries.inbox import NewDelivery
from webhooks.sources import configs, requests
from webhooks.sources.configs import Opened
from webhooks.sources.requests import Envelope, Key, Request, Verified

_AHEAD = timedelta(minutes=5)
_noted: Recent[bool] = Recent(for_s=secrets.USE_NOTED_EVERY.total_seconds())


class Verdict(StrEnum):
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


def check_head(source: Source, headers: Mapping[str, str], *, now: datetime) -> None:
    """Before the body is read: raise BadSignature for headers that no body could make good, since the signature is
    missing or has another form, or its time is not now."""
    if source is Source.SANDBOX_HOOKS and _bearer(headers):
        return
    try:
        configs.CONFIGS[source].scheme.verify(Request(headers=headers, body=b""), keys=(), now=now)
    except BadSignature as error:
        if error.reason != "bad_signature":  # that none of no keys fits is all that should be wrong with it
            raise


def verify(source: Source, request: Request, *, keys: Sequence[Key], now: datetime) -> Verified:
    """By which of these secrets a request is signed. Raises BadSignature, NoSecret."""
    if not keys:
        raise NoSecret(source=source)
    return configs.CONFIGS[source].scheme.verify(request, keys=keys, now=now)


def verify_anew(source: Source, request: Request, *, now: datetime) -> Verified:
    if source is Source.SANDBOX_HOOKS and (token := _bearer(request.headers)):
        return Verified(key_id=0, sandbox=secrets.sandbox_of(token))
    keys, are_all = secrets.read_keys(source)
    try:
        return verify(source, request, keys=keys, now=now)
    except (BadSignature, NoSecret):
        if are_all:
            raise
        raise CannotOpen(source=source) from None  # it may be signed with that one: the sender is to come again


def delivery(
    source: Source, request: Request, verified: Verified, opened: Opened, *, address: str | None, now: datetime
) -> NewDelivery:
    """What is to be stored. What is signed and cannot be read is rejected, and stored as it is. Raises BadSignature for
    an event that is too old."""
    _refuse_replay(source, opened.envelope, now=now)
    delivery_id, sandbox = opened.envelope.delivery_id, verified.sandbox
    return NewDelivery(
        source=source,
        # An id that no signature vouches for is its sandbox's own: nobody else's delivery counts as its duplicate.
        delivery_id=delivery_id[:LONGEST] if sandbox is None else within(sandbox, delivery_id),
        event_type=opened.envelope.event_type,
        status=Status.REJECTED if opened.rejected else Status.RECEIVED,
        note=opened.rejected,
        body=request.body,
        body_sha256=opened.digest,
        headers=_stored_headers(request),
        address=address,
        secret=verified.key_id if sandbox is None else None,
        sandbox=sandbox,
        occurred_at=opened.envelope.occurred_at,
    )


@transactions.retried
def keep(deliveries: Sequence[NewDelivery]) -> list[Kept]:
    """Store requests that were judged, and schedule the processing of what is new, in one transaction of its own.

    One that is there already is counted, and processed again if it had failed, died or been rejected by its handler.
    What each came to, in order.
    """
    stored = inbox.keep(deliveries)
    answers = _answers_to_new(deliveries, stored)
    known = [position for position, answer in enumerate(answers) if answer is None]
    repeated = inbox.count_duplicates([deliveries[position] for position in known]) if known else []
    for row in reversed(repeated):  # of two rows that are the same delivery, the older one answers
        position = known[row.position - 1]
        answers[position] = _answer_to_repeated(row, deliveries[position])
    _schedule(stored, repeated)
    _note_use(deliveries)
    return [answer or Kept(verdict=Verdict.UNSIGNED) for answer in answers]


def _refuse_replay(source: Source, envelope: Envelope, *, now: datetime) -> None:
    """Where the signature has no time, the signed body's own bounds how long a captured request can be sent again."""
    if not configs.CONFIGS[source].is_dated_by_body or envelope.occurred_at is None:
        return
    oldest = settings.WEBHOOKS["ATLASSIAN_OLDEST_S"]
    if (now - envelope.occurred_at).total_seconds() > oldest:
        raise BadSignature(reason="too_old")
    if envelope.occurred_at - now > _AHEAD:
        raise BadSignature(reason="too_new")


def _stored_headers(request: Request) -> dict[str, str]:
    headers = requests.redacted(request.headers)
    if "event" in request.query:
        headers["?event"] = text(request.query["event"], LONGEST)
    return headers


def _bearer(headers: Mapping[str, str]) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _answers_to_new(deliveries: Sequence[NewDelivery], stored: Sequence[Any]) -> list[Kept | None]:
    """For each of them the answer, or None if it was not stored. Of twins in one batch the first was."""
    unmatched = {(row.source, row.delivery_id): row for row in stored}
    answers: list[Kept | None] = []
    for one in deliveries:
        row = unmatched.pop((one.source.value, one.delivery_id), None)
        verdict = Verdict.REJECTED if one.status is Status.REJECTED else Verdict.RECEIVED
        answers.append(row and Kept(verdict=verdict, delivery=row.id, note=one.note))
    return answers


def _answer_to_repeated(row: Any, delivery: NewDelivery) -> Kept:
    if row.was == Status.REJECTED and not row.comes_again:
        return Kept(verdict=Verdict.REJECTED, delivery=row.id, note=delivery.note)
    return Kept(verdict=Verdict.DUPLICATE, delivery=row.id)


def _schedule(stored: Sequence[Any], repeated: Sequence[Any]) -> None:
    """Have them processed; telemetry waits for the cron that drains it."""
    again = {row.id: row for row in repeated if row.comes_again}
    fresh = {row.id: row for row in stored if row.status == Status.RECEIVED}
    pointers = {row.id: row.row_pointer for row in repeated}
    wanted = [
        new(attempts.process, {"delivery": row.id, "row_pointer": pointers.get(row.id, row.row_pointer)})
        for row in (fresh | again).values()
        if row.source != Source.SANDBOX_TELEMETRY
    ]
    if wanted:
        insert(wanted)
    if len(wanted) < len(fresh | again):
        drain_soon()
    rows = [*stored, *repeated]
    touch([row.id for row in rows], sources=[row.source for row in rows])


def _note_use(deliveries: Sequence[NewDelivery]) -> None:
    """Once a minute for each process and secret."""
    used = {one.secret for one in deliveries if one.secret is not None}
    if due := [secret for secret in used if not _noted.get(str(secret))]:
        secrets.note_use(Secret, due)
        for secret in due:
            _noted.keep(str(secret), True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Requests of a source that were refused for one reason; where the last of them came from, its announced size and
    the names of its headers."""

    source: Source
    reason: str
    address: str | None
    size: int | None
    header_names: Sequence[str]
    times: int = 1


def count_refusals(refusals: Sequence[Refused]) -> None:
    """Count them, each line once, in one order: two processes count the same lines."""
    with transaction.atomic():
        for one in sorted(refusals, key=lambda one: (one.source, one.reason)):
            inbox.count_refusal(**asdict(one))
        for source in {one.source for one in refusals}:
            live.touch("refusals", f"webhook-source:{source}")
