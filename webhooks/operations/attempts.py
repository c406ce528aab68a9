"""Processing: one delivery, one serializable transaction; and what becomes of a delivery that fails.

The handler runs within a savepoint. When it raises, its writes go, and the failure with its next attempt is written by
the same transaction: a crash between any two statements leaves the delivery as it was, with its run still due. A body
that lacks what its handler cannot do without is rejected at once: no later attempt would read another one. The jobs
that rules start are submitted by this transaction too.
"""

import random
import traceback
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.db import transaction

from observing import fields
from outbox import operations as outbox
from postgres import transactions
from scheduling import operations as scheduling
from scheduling.operations import endings
from webhooks.domain import bodies
from webhooks.domain.states import WAITING, Outcome, Status, next_wait
from webhooks.errors import BadPayload, WebhooksError
from webhooks.handlers import registry
from webhooks.handlers.registry import Event
from webhooks.operations import deliveries as stored
from webhooks.operations import job_starts
from webhooks.queries import inbox
from webhooks.queries.inbox import Settlement

# Words of a body that can be searched for: a tsvector holds a megabyte, and most bodies are far smaller.
SEARCHED_CHARACTERS = 100_000
_LONGEST_TRACEBACK = 20_000
NO_HANDLER = "nothing handles this type of event"
NO_TYPE = "it does not say of what type it is"
UNREAD = "taken in without what could not be read: "
_MOST_UNREAD = 20  # names of fields in a note
_RNG = random.SystemRandom()


@scheduling.mutation
def process(*, delivery: int, row_pointer: str = "(0,0)", number: int | None = None) -> str | None:
    """Run the handler of a delivery that waits, and write how that ended; None if it does not wait any more.

    `row_pointer` is where its row lay when this was scheduled, `number` the attempt that this is to be: when that was
    made meanwhile, because somebody replayed the delivery, the next one has a time of its own. None: whichever is next.
    """
    row = inbox.take(delivery, row_pointer=row_pointer)
    if row is None or row.status not in WAITING or number not in {None, row.tries + 1}:
        return None
    return _process(row)


@scheduling.mutation
def process_batch(*, deliveries: list[int]) -> int:
    """Process those of them that wait for their first attempt and that nobody else has; how many that were."""
    rows = inbox.take_waiting(deliveries)
    for row in rows:
        _process(row)
    return len(rows)


@scheduling.mutation
def record_failure(*, delivery: int, error: str, row_pointer: str = "(0,0)") -> str | None:
    """Write that an attempt failed which could not say so itself: it took its process with it, say."""
    row = inbox.take(delivery, row_pointer=row_pointer)
    if row is None or row.status not in WAITING:
        return None
    return _settle(_failed(row, error=error, error_class="scheduling.errors.KillsItsProcess"), row)


def _process(row: Any) -> str:
    with fields.about(source=row.source, delivery_id=row.delivery_id):
        return _processed(row)


def _processed(row: Any) -> str:
    words: str | None = None
    try:
        with transaction.atomic():
            event, document = stored.opened(row)
            words = bodies.words(document, most=SEARCHED_CHARACTERS)
            outcome, note = _handle(event)
    except BadPayload as error:
        settlement = _ended(row, Outcome.REJECTED, stored.sentence(error))
    except Exception as error:
        if transactions.collided(error) or endings.is_away(error):
            raise  # that says nothing about the delivery: the whole transaction runs again
        settlement = _failed(
            row,
            error=stored.sentence(error),
            error_class=f"{type(error).__module__}.{type(error).__qualname__}"[:200],
            # None for a payload that is not what its type promises: the fault is not in the code.
            error_trace=None
            if isinstance(error, WebhooksError)
            else stored.text("".join(traceback.format_exception(error)), -_LONGEST_TRACEBACK),
        )
    else:
        settlement = _ended(row, outcome, note)
        job_starts.start_jobs(row, event)
    return _settle(settlement, row, words=words)


def _handle(event: Event) -> tuple[Outcome, str | None]:
    """Call who handles it; whether one of them took it in, and why none did, or what of it could not be read."""
    handlers = registry.all_for(event.source, event.type)
    if not handlers:
        return Outcome.IGNORED, NO_HANDLER if event.type else NO_TYPE
    notes = [handler(event) for handler in handlers]
    if None not in notes:
        return Outcome.IGNORED, notes[0]
    unread = ", ".join([*dict.fromkeys(event.unread)][:_MOST_UNREAD])
    return Outcome.PROCESSED, stored.text(UNREAD + unread, stored.LONGEST_ERROR) if unread else None


def _ended(row: Any, outcome: Outcome, note: str | None) -> Settlement:
    error = note if outcome is Outcome.REJECTED else None
    return Settlement(**_attempt_of(row), outcome=outcome, status=Status(outcome), note=note, error=error)


def _failed(row: Any, *, error: str, error_class: str, error_trace: str | None = None) -> Settlement:
    most, first_s = settings.WEBHOOKS["ATTEMPTS"], settings.WEBHOOKS["FIRST_RETRY_S"]
    wait = next_wait(after=row.attempts + 1, attempts=most, first_s=first_s, rng=_RNG)
    return Settlement(
        **_attempt_of(row), outcome=Outcome.FAILED, status=Status.DEAD if wait is None else Status.FAILED,
        wait_s=None if wait is None else wait.total_seconds(), note=error, error=error, error_class=error_class,
        traceback=error_trace,
    )  # fmt: skip


def _attempt_of(row: Any) -> dict[str, Any]:
    numbers = {"number": row.tries + 1, "attempts": row.attempts + 1}
    return numbers | {"id": row.id, "row_pointer": row.row_pointer, "started_at": row.now}


def _settle(settlement: Settlement, row: Any, *, words: str | None = None) -> str:
    row_pointer = inbox.settle(replace(settlement, words=words))
    if settlement.wait_s is not None:
        scheduling.run_after(
            settlement.wait_s, process, delivery=settlement.id, row_pointer=row_pointer, number=settlement.number + 1
        )
    if settlement.status is Status.DEAD:
        about = {"id": settlement.id, "source": row.source, "delivery_id": row.delivery_id, "type": row.event_type}
        data = {**about, "attempts": settlement.attempts, "error": settlement.error}
        outbox.record("delivery.dead", f"delivery/{settlement.id}", data)
    stored.touch([settlement.id], sources=[row.source])
    return settlement.status.value
