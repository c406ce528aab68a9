"""What other apps learn of jobs and queues: endpoints of the outbox by events, written by the transaction that makes
them true (docs/outbox.md), and the meter by calls.

A meter that fails at an end is a line in the log, and what it wrote is rolled back alone, as with hooks of kinds
(docs/adr/0026).
"""

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from jobs import registry
from jobs.domain.hooks import AttemptEnd
from jobs.domain.reasons import expired
from jobs.domain.states import AttemptOutcome, Status
from jobs.models import Job
from jobs.queries import reads
from jobs.queries.moves import Settlement
from jobs.queries.submits import Stored
from observing import fields
from outbox import operations as outbox
from outbox.operations import NewEvent
from postgres import transactions

log = logging.getLogger(__name__)
_TYPES: Final[Mapping[Status, str]] = {
    Status.SUCCESS: "job.succeeded",
    Status.FAILED: "job.failed",
    Status.CANCELED: "job.canceled",
    Status.TIMED_OUT: "job.timed_out",
}


def settled(moved: Sequence[Any], *, settlements: Sequence[Settlement], locked: Mapping[int, Any]) -> None:
    """Attempts of these jobs ended: `moved` are their rows as they stand now, `locked` as they were."""
    _record_settled(moved, settlements)
    by_job = {one.job_id: one for one in settlements}
    _attempts_ended(
        AttemptEnd(
            job_id=row.id, fence=by_job[row.id].fence, kind=was.kind, is_over=row.status != Status.PENDING,
            is_metered=was.is_metered, result=_decoded(by_job[row.id].result),
        )
        for row, was in ((row, locked[row.id]) for row in moved)
        if _is_metered(was)
        and (row.status != Status.PENDING or by_job[row.id].outcome not in {AttemptOutcome.UNCONFIRMED, None})
    )  # fmt: skip


def succeeded(moved: Sequence[Any], *, results: Sequence[str | None]) -> None:
    """These jobs succeeded, with these results in JSON."""
    _record_settled(moved, ())
    _attempts_ended(
        AttemptEnd(
            job_id=row.id, fence=row.fence, kind=row.kind, is_over=True, is_metered=row.is_metered,
            result=_decoded(result), worker=row.worker_name or "",
        )
        for row, result in zip(moved, results, strict=True) if _is_metered(row)
    )  # fmt: skip


def ended_waiting(jobs: Sequence[Any]) -> None:
    """These jobs ended while they waited."""
    if jobs and outbox.listens():
        _record([job.id for job in jobs], lost=())
    meter_ended_waiting(jobs)


def meter_ended_waiting(jobs: Iterable[Any]) -> None:
    """The same of jobs that became others, for the meter alone."""
    meter, job_ids = registry.meter(), [job.id for job in jobs if job.is_metered]
    if meter is not None and job_ids:
        _guarded(lambda: meter.ended_waiting(job_ids), job_ids)


def changed(event_type: str, subject: str, *, by: User | None, **data: str) -> None:
    """Somebody changed something that is no job."""
    outbox.record(event_type, subject, {**data, "by": None if by is None else by.get_username()})


def call_back(submitted: Iterable[tuple[str | None, User | None, int]]) -> None:
    """Let the address that came with a job have its events: (address or None, owner, job) of each. In the transaction
    that stores them. Raises as `outbox.operations.callback`."""
    by_address: dict[tuple[str, User | None], list[int]] = defaultdict(list)
    for url, owner, job_id in submitted:
        if url is not None:
            by_address[url, owner].append(job_id)
    for (url, owner), job_ids in by_address.items():
        outbox.call_back(job_ids, outbox.callback(url, owner=owner))


def replaced(earlier: Iterable[Job], newer: Iterable[Any], *, listens: bool, by: User | None) -> None:
    """These jobs, as they were, became newer ones: of that endpoints hear where any `listens`, also the addresses that
    came with the earlier ones, which hear no more."""
    before = {job.pk: job for job in earlier}
    if not before:
        return
    if listens:
        after = {stored.id: stored for stored in newer if isinstance(stored, Stored)}
        facts = reads.event_facts([*before], most_bytes=settings.OUTBOX["RESULT_BYTES"])
        outbox.record_all([_replacement(row, before[row.id], after[row.id], by=by) for row in facts])
    outbox.forget_callbacks([*before])


def _record_settled(moved: Sequence[Any], settlements: Sequence[Settlement]) -> None:
    """`moved` say whether any endpoint listens: where none does this asks the database nothing."""
    if not moved or not moved[0].listens:
        return
    lost = {one.job_id for one in settlements if one.outcome is AttemptOutcome.LOST}
    if ids := [row.id for row in moved if row.status != Status.PENDING or row.id in lost]:
        _record(ids, lost=lost)


def _record(job_ids: Sequence[int], *, lost: Collection[int]) -> None:
    facts = reads.event_facts(job_ids, most_bytes=settings.OUTBOX["RESULT_BYTES"])
    outbox.record_all([event for row in facts for event in _events(row, is_lost=row.id in lost)])


def _events(row: Any, *, is_lost: bool) -> Iterator[NewEvent]:
    """An attempt that was lost, and how the job ended, if it did."""
    if is_lost:
        yield _event("job.lost", row)
    if row.status in _TYPES:
        yield _event(_TYPES[Status(row.status)], row)


def _event(event_type: str, row: Any) -> NewEvent:
    return NewEvent(
        type=event_type, subject=f"job/{row.id}", data=_data(row), job_id=row.id, kind=row.kind,
        owner_id=row.owner_id, group_id=row.group_id, occurred_at=row.ended_at, result=_result(row),
    )  # fmt: skip


def _replacement(row: Any, before: Job, after: Stored, *, by: User | None) -> NewEvent:
    event = _event("job.replaced", row)
    event.data.update(
        by=None if by is None else by.get_username(),
        priority=after.record.priority,
        run_at=after.run_at.isoformat(),
        before={
            "submitted_at": (before.replaced_at or before.created_at).isoformat(),
            "queue": before.queue,
            "priority": before.priority,
            "run_at": before.run_at.isoformat(),
        },
    )
    return event


def _data(row: Any) -> dict[str, Any]:
    return {
        **{name: getattr(row, name) for name in ("id", "kind", "queue", "status", "owner")},
        "group": row.team,
        "unique_key": row.unique_key,
        "retry_of": row.retry_of_id,
        "attempt": row.attempt,
        "max_attempts": row.max_attempts,
        "worker": row.worker_name,
        "error": expired(row.expires_at) if reads.was_never_begun(row) else row.error or None,
        "created_at": row.created_at.isoformat(),
        "ended_at": None if row.ended_at is None else row.ended_at.isoformat(),
        "path": f"/api/v1/jobs/{row.id}",
    }


def _result(row: Any) -> Any:
    """The result of a success; without one, and where nobody asks for it, there is none."""
    if row.result_bytes is None:
        return outbox.NO_RESULT
    return outbox.TOO_LARGE if row.result is None else row.result


def _attempts_ended(ends: Iterable[AttemptEnd]) -> None:
    meter, all_ends = registry.meter(), list(ends)
    if meter is not None and all_ends:
        _guarded(lambda: meter.attempts_ended(all_ends), [end.job_id for end in all_ends])


def _guarded(call: Callable[[], None], job_ids: Sequence[int]) -> None:
    try:
        with transaction.atomic():
            call()
    except Exception as error:
        if transactions.collided(error):  # the whole transaction is to run again, and nothing of it is lost
            raise
        with fields.about(job_id=job_ids[0] if len(job_ids) == 1 else None):
            log.exception("the meter failed for the ends of the jobs %s, which stand", job_ids[:20])


def _is_metered(row: Any) -> bool:
    return row.is_metered or row.kind in registry.METERED_KINDS


def _decoded(result: str | None) -> Any:
    return None if result is None else json.loads(result)
