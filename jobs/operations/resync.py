"""For other apps, about jobs of theirs: their status, what they wrote, who could take them."""

from collections.abc import Iterable, Sequence

from django.db import transaction

from jobs.domain.hooks import Move
from jobs.domain.states import Outcome, Status
from jobs.models import Attempt, Job
from jobs.operations import hooking
from jobs.queries import fleet, reads
from jobs.queries.fleet import Serving


def statuses(job_ids: Iterable[int]) -> dict[int, Status]:
    """How these jobs stand; those that are deleted by now are left out."""
    return reads.statuses(job_ids)


def resync(job_ids: Iterable[int]) -> list[int]:
    """Report each job's status to the hooks of its kind once more; the ids of those that exist.

    For an app whose own rows fell behind because its hook failed. The jobs are locked meanwhile, so what is reported is
    true until it is stored. `from_` is None, since where they came from is not known any more.
    """
    with transaction.atomic():
        jobs = reads.locked(sorted(job_ids))
        ended = reads.last_attempts([job.pk for job in jobs])
        hooking.resynced(_move(job, ended.get(job.pk)) for job in jobs)
    return [job.pk for job in jobs]


def output_text(job_id: int, *, attempt: int) -> str:
    """All that this attempt of the job wrote."""
    return reads.output_text(job_id, attempt=attempt)


def workers_for(queue: str, *, group_id: int) -> Sequence[Serving]:
    """The live workers that take jobs of this group from this queue: those of the farm, then the members', by name."""
    return fleet.workers_for(queue, group_id=group_id)


def _move(job: Job, last: Attempt | None) -> Move:
    status = Status(job.status)
    is_of_last = last is not None and last.number == job.fence
    return Move(
        job_id=job.pk,
        kind=job.kind,
        attempt=job.fence,
        from_=None,
        to=status,
        worker_name=job.worker_name or "",
        outcome=Outcome(last.outcome) if last is not None and is_of_last else None,
        result=job.body.result if status is Status.SUCCESS else None,
        error=last.error if last is not None and is_of_last else "",
        run_at=job.run_at if status is Status.PENDING else None,
    )
