"""Bulk actions: what matches is counted first, changed in batches by the scheduler, and taken back while that is true.

A batch is a transaction under the lock of the bulk's row, and moves its place forward with what it does: a step that is
killed, or runs twice, goes on where the last batch ended.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from django.contrib.auth.models import User

from core import audit
from jobs import limits
from jobs.domain.bulks import OVER, BulkAction, Phase, sentence
from jobs.domain.filters import Filters
from jobs.errors import InvalidValue, JobsError, NotFound
from jobs.models import Bulk
from jobs.operations import bulk_batches, queues, quotas
from jobs.operations.bulk_batches import BatchResult
from jobs.operations.set_aside import by_halves
from jobs.queries import bulks, lists
from live import operations as live
from postgres import clock, transactions
from ratelimits import operations as ratelimits
from scheduling import operations as scheduling, registry
from scheduling.operations import Retry, action

BATCH = 200
RETRIED_AT_ONCE = 50  # each is a submission with its payload
STEP_S = 5.0  # then others go on
COUNTED_AT_ONCE_S = 0.5  # while the person waits for the answer; what is left is counted by the scheduler
MOST_RESULTS = 20  # different ones
OTHERS = "refused for other reasons"
_RESTING = OVER | {Phase.READY}


def create(
    action: BulkAction, *, by: User, filters: Filters, value: str = "", back: str = "", error: str = "",
    begins_up_to: int | None = None,
) -> Bulk:  # fmt: skip
    """Ask to do this to every job that matches and that `by` may act on. Nothing is done before `begin`, or before the
    scheduler has counted them and found no more than `begins_up_to`.

    A retry leaves out what another job retries already. `back` is the page that it is asked on, `error` what all of
    the jobs failed of. A large number may still be being counted when this returns. Raises UnknownQueue,
    InvalidValue, QuotaReached, PriorityNotAllowed or QueueChoiceNotAllowed for what takes a right that `by` lacks.
    """
    quotas.refuse_first([(bulks.open_of(by), 1)])
    queues.check_bulk_value(action, value)
    queues.check_bulk(action, value, kind=filters.kind, by=by)
    newest = min(bulks.top_id(), lists.id_range(filters)[1] - 1)
    bulk = Bulk.objects.create(
        by=by, action=action, value=value, filters=filters.at(clock.now()).as_dict(), top_id=newest,
        next_id=newest + 1, back=back, error=error, begins_up_to=begins_up_to,
    )  # fmt: skip
    if begins_up_to is not None or _go_on(bulk.pk, for_s=COUNTED_AT_ONCE_S) is not None:
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
        _begin(bulk, by=by)
        bulk.save()
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
            "phase": Phase.RUNNING, "began_at": clock.now(), "back": bulk.back, "error": bulk.error,
        },
    )  # fmt: skip
    if is_new:
        audit.record(by, bulk, f"undone by #{undoing.pk}")
        live.touch(f"bulk:{bulk.pk}")
        _soon(undoing)
    return undoing


@action(timeout=120, idempotent=True, retry=Retry(max_attempts=8, base=2), own_writes=True)
def step(*, bulk_id: int) -> None:
    """Go on with a bulk for some seconds; if there is more to do, the next step is scheduled with the last batch."""
    wait_s = _go_on(bulk_id, for_s=STEP_S)
    if wait_s is not None:
        scheduling.run_after(wait_s, step, bulk_id=bulk_id)


@action(idempotent=True, own_writes=True)
def mend() -> int:
    """Let those go on whose steps failed for good, as where somebody held their jobs for long; how many those were."""
    bulk_ids = bulks.broken_off(registry.dotted_name(step))
    for bulk_id in bulk_ids:
        scheduling.run_after(0, step, bulk_id=bulk_id)
    return len(bulk_ids)


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
    """One batch: whether nothing is left to do after it, and the seconds to wait where a limit says so."""
    bulk = bulks.find(bulk_id, lock=True)
    if bulk is None or bulk.phase in _RESTING:
        return True, None
    wait_s = _next(bulk)
    bulk.save()
    live.touch(f"bulk:{bulk.pk}")
    return bulk.phase in _RESTING, wait_s


def _next(bulk: Bulk) -> float | None:
    """Count the next range, or do the next batch; seconds to wait where a limit says so."""
    if bulk.phase == Phase.COUNTING:
        _count(bulk)
    elif (why := _no_longer_allowed(bulk)) is not None:
        _end(bulk, Phase.STOPPED, why=why)
    else:
        return _undo_batch(bulk) if bulk.undoes is not None else _do_batch(bulk)
    return None


def _no_longer_allowed(bulk: Bulk) -> str | None:
    """Why whoever asked for it may not do so any more, cut to what a bulk keeps."""
    if not bulk.by.is_active:
        return "the account that started it is no longer active"
    try:
        queues.check_bulk(BulkAction(bulk.action), bulk.value, kind=Filters.of(bulk.filters).kind, by=bulk.by)
    except JobsError as refusal:
        return refusal.message[:200]
    return None


def _count(bulk: Bulk) -> None:
    jobs, low, floor = bulks.next_range(bulk)
    matched, retried = bulks.count_of(bulk, jobs)
    bulk.matched += matched
    _count_results(bulk, {bulk_batches.RETRIED: retried} if retried else {})
    bulk.next_id = low
    if low <= floor:
        bulk.phase, bulk.next_id = Phase.READY, bulk.top_id + 1
        if bulk.begins_up_to is not None and bulk.matched <= bulk.begins_up_to:
            _begin(bulk, by=bulk.by)


def _do_batch(bulk: Bulk) -> float | None:
    size = RETRIED_AT_ONCE if bulk.action == BulkAction.RETRY else BATCH
    jobs, low, floor = bulks.next_range(bulk)
    ids = bulks.ids_of(bulk, jobs, limit=size)
    if ids and (wait := _wait_for_limit(bulk, len(ids))):
        return wait.total_seconds()
    _note(bulk, partial(bulk_batches.do, bulk, now=clock.now()), ids)
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
    _note(bulk, partial(bulk_batches.take_back, bulk.undoes, by=bulk.by, now=clock.now()), items)
    bulk.next_id = items[-1].job_id
    return None


def _wait_for_limit(bulk: Bulk, jobs: int) -> timedelta | None:
    """What a person may submit bounds what they may try again, too; whoever runs the farm is not bounded."""
    submits = bulk.action in {BulkAction.RETRY, BulkAction.UNDO}
    if not submits or bulks.reaches_all(bulk.by):
        return None
    # A small limit lets a batch by when it is full.
    count = min(jobs, ratelimits.config_of(limits.SUBMIT_USER).most)
    return ratelimits.limit(limits.SUBMIT_USER, key=f"user:{bulk.by_id}", count=count).retry_after


def _note(bulk: Bulk, do: Callable[[Sequence[Any]], BatchResult], those: Sequence[Any]) -> None:
    bulk.handled += len(those)
    for outcome in by_halves(do, those, failed=BatchResult(results=Counter({"failed, see the log": 1}))):
        bulk.changed += outcome.changed
        _count_results(bulk, outcome.results)
        if bulk.undoes is None:
            bulks.keep(bulk, outcome.items)


def _count_results(bulk: Bulk, more: Mapping[str, int]) -> None:
    """Add these to its results: with one more for each job, as where a refusal names it, the row would never end."""
    for result, count in more.items():
        known = result if result in bulk.results or len(bulk.results) < MOST_RESULTS else OTHERS
        bulk.results[known] = bulk.results.get(known, 0) + count


def _begin(bulk: Bulk, *, by: User) -> None:
    bulk.phase, bulk.began_at = Phase.RUNNING, clock.now()
    begun = sentence(BulkAction(bulk.action), bulk.value, jobs=bulk.matched)
    audit.record(by, bulk, f"{begun}: {bulk.filters}")


def _end(bulk: Bulk, phase: Phase, *, by: User | None = None, why: str = "") -> None:
    """End it; the line in the log is of who stopped it, else of who had it done."""
    bulk.phase, bulk.why, bulk.ended_at = phase, why, clock.now()
    bulk.save()
    summary = "; ".join(f"{count:,} {result}" for result, count in bulk.results.items()) or "nothing changed"
    audit.record(by or bulk.by, bulk, f"{phase}: {summary}"[:2000])
    live.touch(f"bulk:{bulk.pk}")


def _own(bulk_id: int, *, by: User) -> Bulk:
    """The locked bulk, for who asked for it and for whoever runs the farm."""
    bulk = bulks.find(bulk_id, lock=True)
    if bulk is None or not (bulk.by_id == by.pk or bulks.reaches_all(by)):
        raise NotFound("There is no such bulk action.")
    return bulk


def _soon(bulk: Bulk) -> None:
    scheduling.run_after(0, step, bulk_id=bulk.pk)
    live.touch(f"bulk:{bulk.pk}")
