"""What jobs used, for their pages."""

from collections.abc import Sequence

from jobs.domain.meters import Used
from metering.domain.budgets import Unit
from metering.operations import titles
from postgres import statements


def of_job(job_id: int) -> Used | None:
    """What this job used; None while none of its attempts has ended."""
    return of_jobs([job_id])


def of_jobs(job_ids: Sequence[int]) -> Used | None:
    """What these jobs used together; None while none of their attempts has ended."""
    [row] = statements.load("metering", "of_jobs").run({"jobs": list(job_ids)})
    if not row.attempts:
        return None
    return Used(
        attempts=row.attempts, seconds=row.seconds, model=row.model or "", tokens_in=row.tokens_in,
        tokens_out=row.tokens_out, cost=row.cost, is_estimated=row.is_estimated,
        cost_in_words=titles.amount(row.cost, Unit.MONEY) if row.cost else "",
    )  # fmt: skip
