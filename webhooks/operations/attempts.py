"""Processing: one delivery, one serializable transaction; and what becomes of a delivery that fails.

The handler runs within a savepoint. When it raises, its writes go, and the failure with its next attempt is written by
the same transaction: a crash between any two statements leaves the delivery as it was, with its run still due. A body
that lacks what its handler cannot do without is rejected at once: no later attempt would read another one. The jobs
that rules start are submitted by this transaction too.
"""

import random
import traceback
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from core import audit
from core.refusal import existing
from observing import fields
from outbox import operations as outbox
from postgres import transactions
from scheduling import operations as scheduling
from scheduling.operations import endings
from scheduling.operations.functions import insert, new
from webhooks.domain import bodies
from webhooks.domain.deliveries import WAITING, Filter, Outcome, Source, Status, is_replayable, next_wait
from webhooks.errors import BadPayload, CannotReplay, NotAllowed, NotFound, WebhooksError
from webhooks.handlers import registry
from webhooks.handlers.registry import Event
from webhooks.models import Delivery
from webhooks.operations import deliveries as stored, job_starts
from webhooks.operations.deliveries import drain_soon, touch
from webhooks.queries import inbox
from webhooks.queries.inbox import Settlement
from webhooks.queries.pages import Replay

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


OPERATE: Final = "webhooks.operate_delivery"  # the right to replay, send tests and change secrets
# Of a replay of many: so many at once, and so long a pause, so that what arrives meanwhile does not wait behind it.
BATCH: Final = 100
PAUSE: Final = timedelta(seconds=1)
_WITH_JOBS: Final = " with its jobs"


def replay(delivery: int, *, with_jobs: bool = False, by: User | None = None) -> Delivery:
    """Process a delivery again, from its first attempt on; its history stays.

    The jobs that its rules started are not started again, unless `with_jobs` asks for that; one of which no attempt
    ended well has started none, and does so now.

    Raises NotFound, and CannotReplay for one that waits anyway, or whose body nobody can read.
    """
    with transaction.atomic():
        row = existing(inbox.lock(delivery), NotFound(resource="delivery"))
        if not is_replayable(row.status, tries=row.tries):
            is_waiting = row.status in WAITING
            reason = "it waits to be processed already" if is_waiting else "its body cannot be read, now as then"
            raise CannotReplay(status=row.status, reason=reason)
        _requeue([row], with_jobs=with_jobs)
        audit.record(by, row, f"Replayed {row}{_WITH_JOBS if with_jobs else ''}, which was {row.status}")
    row.refresh_from_db(fields=["status", "attempts", "next_attempt_at", "note"])
    return row


def count_matching(wanted: Filter) -> int:
    """How many deliveries `replay_matching` would replay now."""
    return inbox.replayable(wanted).count()


@transaction.atomic
def replay_matching(wanted: Filter, *, with_jobs: bool = False, by: User | None = None) -> Replay | None:
    """Replay every delivery that matches and came before now, a batch at a time; how far that is, None when none match.

    The first batch begins at once; they are a hundred a second, oldest first. One that ends or starts to match
    meanwhile is replayed if it matches when its turn comes, and none once `by` may not (OPERATE). `with_jobs` as in
    `replay`.
    """
    last, matched = inbox.replayable(wanted).last(), count_matching(wanted)
    if last is None:
        return None
    first = scheduling.run_after(
        0, replay_batch, wanted=wanted.as_json(), after=0, until=last.pk, matched=matched, with_jobs=with_jobs,
        by=None if by is None else by.pk,
    )  # fmt: skip
    which = f"{'with their jobs, ' if with_jobs else ''}up to this one: {wanted.sentence()}"
    audit.record(by, last, f"Replays {matched:,} deliveries {which}")
    return Replay.find(first.pk)


@scheduling.mutation
def replay_batch(
    *, wanted: dict[str, Any], after: int, until: int, matched: int = 0, with_jobs: bool = False, by: int | None = None
) -> int:
    """One batch of `replay_matching`, and the next one scheduled; how many were replayed. `matched` is how many matched
    when it began, for whoever watches (queries.pages.Replay). Raises NotAllowed, which ends it, where `by` may replay
    no more."""
    _check_may_replay(by)
    matching = inbox.replayable(Filter.of_json(wanted)).filter(pk__gt=after, pk__lte=until)
    rows = list(matching.select_for_update(of=("self",), no_key=True)[:BATCH])
    if len(rows) == BATCH:
        after = rows[-1].pk
        scheduling.run_after(
            PAUSE, replay_batch, wanted=wanted, after=after, until=until, matched=matched, with_jobs=with_jobs, by=by
        )
    _requeue(rows, with_jobs=with_jobs)
    return len(rows)


def _check_may_replay(by: int | None) -> None:
    if by is None:  # the site itself
        return
    person = User.objects.filter(pk=by, is_active=True).first()
    if person is None:
        raise NotAllowed("The account that started it is no longer active.")
    if not person.has_perm(OPERATE):
        raise NotAllowed


def _requeue(rows: list[Delivery], *, with_jobs: bool) -> None:
    places = inbox.requeue([row.pk for row in rows], with_jobs=with_jobs)
    runs = [
        new(process, {"delivery": row.pk, "row_pointer": places[row.pk]})
        for row in rows
        if row.source != Source.SANDBOX_TELEMETRY
    ]
    if runs:
        insert(runs)
    if len(runs) < len(rows):
        drain_soon()
    touch([row.pk for row in rows], sources=[row.source for row in rows])
