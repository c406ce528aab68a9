"""Deeds on everything that matches: counted first, done in batches by the scheduler, taken back while that is true.

A batch is a transaction under the lock of the bulk's row, and moves its place forward with what it does: a step that is
killed, or runs twice, goes on where the last batch ended (docs/adr/0030).
"""

import time
from collections import Counter
from datetime import timedelta

from django.contrib.auth.models import User
from django.db import transaction

from core import audit
from jobs import limits
from jobs.domain.bulks import OVER, BulkAction, Phase, sentence
from jobs.domain.filters import Filters
from jobs.errors import InvalidValue, JobsError, NotFound, UnknownQueue
from jobs.models import Bulk
from jobs.operations import bulk_actions, rights
from jobs.queries import bulks, keys
from live import operations as live
from postgres import clock, transactions
from ratelimits import operations as ratelimits
from scheduling import operations as scheduling
from scheduling.operations import Retry, action

BATCH = 200
RETRIED_AT_ONCE = 50  # each is a submission with its payload
STEP_S = 5.0  # then others go on
COUNTED_AT_ONCE_S = 0.5  # while the person waits for the answer; what is left is counted by the scheduler
_RESTING = OVER | {Phase.READY}


def create(action: BulkAction, *, by: User, filters: Filters, value: str = "") -> Bulk:
    """Ask to do this to every job that matches and that `by` may act on. Nothing is done before `begin`.

    A large number may still be being counted when this returns. Raises UnknownQueue, InvalidValue, and
    PriorityNotAllowed or QueueChoiceNotAllowed for what takes a right that `by` does not have.
    """
    _check(action, value)
    rights.check_bulk(action, value, kind=filters.kind, by=by)
    newest = bulks.top_id()
    with transaction.atomic():
        criteria = filters.at(clock.now()).as_dict()
        bulk = Bulk.objects.create(
            by=by, action=action, value=value, filters=criteria, top_id=newest, next_id=newest + 1
        )
    if _go_on(bulk.pk, for_s=COUNTED_AT_ONCE_S) is not None:
        scheduling.run_after(0, step, bulk_id=bulk.pk)
    bulk.refresh_from_db()
    return bulk


@transactions.retried
def begin(bulk_id: int, *, by: User) -> Bulk:
    """Do it; a second yes changes nothing. Raises NotFound, InvalidValue while it is being counted."""
    bulk = _own(bulk_id, by=by)
    if bulk.phase == Phase.COUNTING:
        raise InvalidValue(field="phase", why="it is still being counted")
    if bulk.phase == Phase.READY:
        bulk.phase, bulk.began_at = Phase.RUNNING, clock.now()
        bulk.save(update_fields=["phase", "began_at"])
        audit.record(
            by, bulk, f"{sentence(BulkAction(bulk.action), bulk.value)} {bulk.matched} jobs: {bulk.filters}"
        )
        _soon(bulk)
    return bulk


@transactions.retried
def stop(bulk_id: int, *, by: User) -> Bulk:
    """Do no more of it; what is done is done. Raises NotFound."""
    bulk = _own(bulk_id, by=by)
    if bulk.phase not in OVER:
        _end(bulk, Phase.STOPPED, by=by, why=f"stopped by {by.get_username()}")
    return bulk


@transactions.retried
def undo(bulk_id: int, *, by: User) -> Bulk:
    """Take it back, job by job, where that is still true to do; the bulk that does so. A second call finds the first.

    Raises NotFound, InvalidValue while it runs, or for one that took another back.
    """
    bulk = _own(bulk_id, by=by)
    if bulk.phase not in OVER or bulk.action == BulkAction.UNDO:
        raise InvalidValue(field="undo", why="only what is over, and no undoing itself, can be undone")
    undoing, is_new = Bulk.objects.get_or_create(
        undoes=bulk,
        defaults={
            "by": by, "action": BulkAction.UNDO, "filters": bulk.filters, "top_id": bulk.top_id,
            "next_id": bulk.top_id + 1, "matched": bulks.count_items(bulk_id),
            "phase": Phase.RUNNING, "began_at": clock.now(),
        },
    )  # fmt: skip
    if is_new:
        audit.record(by, bulk, f"undone by #{undoing.pk}")
        live.touch(_topic(bulk))
        _soon(undoing)
    return undoing


@action(timeout=120, idempotent=True, retry=Retry(max_attempts=8, base=2), own_writes=True)
def step(*, bulk_id: int) -> None:
    """Go on with a bulk for some seconds; if there is more to do, the next step is scheduled with the last batch."""
    wait_s = _go_on(bulk_id, for_s=STEP_S)
    if wait_s is not None:
        scheduling.run_after(wait_s, step, bulk_id=bulk_id)


def _go_on(bulk_id: int, *, for_s: float) -> float | None:
    """Batch after batch until the time is over; in how many seconds to go on, None when nothing is left to do."""
    until = time.monotonic() + for_s
    while True:
        is_resting, wait_s = _batch(bulk_id)
        if is_resting:
            return None
        if wait_s is not None or time.monotonic() > until:
            return wait_s or 0.0


@transactions.retried
def _batch(bulk_id: int) -> tuple[bool, float | None]:
    """One batch: whether nothing was left to do, and the seconds to wait where a limit says so."""
    bulk = bulks.find(bulk_id, lock=True)
    if bulk is None or bulk.phase in _RESTING:
        return True, None
    wait_s = _next(bulk)
    bulk.save()
    live.touch(_topic(bulk))
    return False, wait_s


def _next(bulk: Bulk) -> float | None:
    """Count the next range, or do the next batch; seconds to wait where a limit says so."""
    if bulk.phase == Phase.COUNTING:
        _count(bulk)
        return None
    if not bulk.by.is_active:
        _end(bulk, Phase.STOPPED, why="whoever asked for it is no longer active")
        return None
    if (why := _no_longer_allowed(bulk)) is not None:
        _end(bulk, Phase.STOPPED, why=why)
        return None
    return _undo_batch(bulk) if bulk.undoes is not None else _do_batch(bulk)


def _no_longer_allowed(bulk: Bulk) -> str | None:
    """Why whoever asked for it may not do so any more, cut to what a bulk keeps."""
    try:
        rights.check_bulk(BulkAction(bulk.action), bulk.value, kind=Filters.of(bulk.filters).kind, by=bulk.by)
    except JobsError as refusal:
        return refusal.message[:200]
    return None


def _count(bulk: Bulk) -> None:
    floor = bulks.floor(bulk)
    low, high = bulks.id_range(bulk, floor=floor)
    bulk.matched += bulks.count_within(bulk, low, high) if low < high else 0
    bulk.next_id = low
    if low <= floor:
        bulk.phase, bulk.next_id = Phase.READY, bulk.top_id + 1


def _do_batch(bulk: Bulk) -> float | None:
    size = RETRIED_AT_ONCE if bulk.action == BulkAction.RETRY else BATCH
    floor = bulks.floor(bulk)
    low, high = bulks.id_range(bulk, floor=floor)
    ids = bulks.ids_within(bulk, low, high, limit=size) if low < high else []
    if ids and (wait := _wait_for_limit(bulk, len(ids))):
        return wait.total_seconds()
    _note(bulk, bulk_actions.do(bulk, ids, now=clock.now()), handled=len(ids))
    bulk.next_id = ids[-1] if len(ids) == size else low
    if bulk.next_id <= floor:
        _end(bulk, Phase.DONE)
    return None


def _undo_batch(bulk: Bulk) -> float | None:
    assert bulk.undoes is not None
    items = bulks.items_below(bulk.undoes.pk, bulk.next_id, limit=RETRIED_AT_ONCE)
    if not items:
        _end(bulk, Phase.DONE)
        return None
    if bulk.undoes.action == BulkAction.CANCEL and (wait := _wait_for_limit(bulk, len(items))):
        return wait.total_seconds()
    _note(bulk, bulk_actions.undo(bulk.undoes, items, by=bulk.by, now=clock.now()), handled=len(items))
    bulk.next_id = items[-1].job_id
    return None


def _wait_for_limit(bulk: Bulk, jobs: int) -> timedelta | None:
    """What a person may submit bounds what they may try again, too; whoever runs the farm is not bounded."""
    submits = bulk.action in {BulkAction.RETRY, BulkAction.UNDO}
    if not submits or bulks.reaches_all(bulk.by):
        return None
    count = min(
        jobs, ratelimits.config_of(limits.SUBMIT_USER).most
    )  # a small limit lets a batch by when it is full
    return ratelimits.limit(limits.SUBMIT_USER, key=f"user:{bulk.by_id}", count=count).retry_after


def _note(bulk: Bulk, outcome: bulk_actions.Outcome, *, handled: int) -> None:
    bulk.handled += handled
    bulk.changed += outcome.changed
    bulk.came_to = dict(Counter(bulk.came_to) + outcome.came_to)
    if bulk.undoes is None:
        bulks.keep(bulk, outcome.items)


def _end(bulk: Bulk, phase: Phase, *, by: User | None = None, why: str = "") -> None:
    """End it; the line in the log is of who stopped it, else of who had it done."""
    bulk.phase, bulk.why, bulk.ended_at = phase, why, clock.now()
    bulk.save()
    summary = "; ".join(f"{count} {result}" for result, count in bulk.came_to.items()) or "nothing changed"
    audit.record(by or bulk.by, bulk, f"{phase}: {summary}"[:2000])
    live.touch(_topic(bulk))


def _own(bulk_id: int, *, by: User) -> Bulk:
    """The locked bulk, for who asked for it and for whoever runs the farm."""
    bulk = bulks.find(bulk_id, lock=True)
    if bulk is None or not (bulk.by_id == by.pk or bulks.reaches_all(by)):
        raise NotFound
    return bulk


def _check(action: BulkAction, value: str) -> None:
    if action is BulkAction.UNDO:
        raise InvalidValue(field="action", why="a bulk is undone by its own button")
    if action is BulkAction.QUEUE and not keys.known_queues([value]):
        raise UnknownQueue(queue=value)
    if action is BulkAction.PRIORITY:
        try:
            number = int(value)
        except ValueError:
            number = 1000
        if not -100 <= number <= 100:
            raise InvalidValue(field="priority", why=f"a whole number from -100 to 100, got {value!r}")


def _soon(bulk: Bulk) -> None:
    scheduling.run_after(0, step, bulk_id=bulk.pk)
    live.touch(_topic(bulk))


def _topic(bulk: Bulk) -> str:
    return f"bulk:{bulk.pk}"
