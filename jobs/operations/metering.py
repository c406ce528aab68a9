"""The calls of the meter: with new jobs, which it may refuse or let wait, and with ends, which stand whatever it does.

A meter that fails at an end is a line in the log, and what it wrote is rolled back alone, as with hooks of kinds
(docs/adr/0026).
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from django.db import transaction

from jobs import registry
from jobs.domain.hooks import Admission, AttemptEnd
from jobs.domain.records import JobRecord
from jobs.domain.states import AttemptOutcome, Status
from jobs.queries.moves import Settlement
from observing import fields
from postgres import transactions

log = logging.getLogger(__name__)


def concerns(new: Sequence[JobRecord]) -> bool:
    """Whether the meter has to decide about these new jobs."""
    meter = registry.meter()
    return meter is not None and meter.concerns(new)


def admit(new: Sequence[JobRecord]) -> tuple[Sequence[JobRecord], Admission | None]:
    """Let the meter decide about these new jobs: as they are then, and what it decided; None: it has nothing to
    decide. In the caller's transaction. Raises what the meter refuses them with."""
    meter = registry.meter()
    if meter is None or not concerns(new):
        return new, None
    admission = meter.admit(new)
    decided = zip(new, admission.run_at, admission.is_metered, strict=True)
    return [
        one._replace(run_at=at or one.run_at, is_metered=one.is_metered or is_metered)
        for one, at, is_metered in decided
    ], admission


def succeeded(moved: Sequence[Any], *, results: Sequence[str | None]) -> None:
    """These jobs succeeded, with these results in JSON."""
    _attempts_ended(
        AttemptEnd(
            job_id=row.id, fence=row.fence, kind=row.kind, is_over=True, is_metered=row.is_metered,
            result=_decoded(result), worker=row.worker_name or "",
        )
        for row, result in zip(moved, results, strict=True) if _is_metered(row)
    )  # fmt: skip


def settled(moved: Iterable[Any], *, settlements: Sequence[Settlement], locked: Mapping[int, Any]) -> None:
    """The attempts of these jobs ended: `moved` are the rows as they stand now, `locked` as they were."""
    by_job = {one.job_id: one for one in settlements}
    _attempts_ended(
        _end(row, by_job[row.id], locked[row.id])
        for row in moved
        if _is_metered(locked[row.id])
        and (row.status != Status.PENDING or by_job[row.id].outcome not in {AttemptOutcome.UNCONFIRMED, None})
    )


def ended_waiting(jobs: Iterable[Any]) -> None:
    meter, job_ids = registry.meter(), [job.id for job in jobs if job.is_metered]
    if meter is not None and job_ids:
        _guarded(lambda: meter.ended_waiting(job_ids), job_ids)


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


def _end(row: Any, settlement: Settlement, was: Any) -> AttemptEnd:
    return AttemptEnd(
        job_id=row.id, fence=settlement.fence, kind=was.kind, is_over=row.status != Status.PENDING,
        is_metered=was.is_metered, result=_decoded(settlement.result),
    )  # fmt: skip


def _decoded(result: str | None) -> Any:
    return None if result is None else json.loads(result)
