"""Reconciliation: what fell through is found, mended and reported.

Nothing should: a delivery and its run are one transaction. But rows are deleted by hand, backups are restored in
parts, a run may kill its process each time, and a process may die between a file and its row.
"""

from typing import Any, Final

from django.db import transaction

from jobs import operations as jobs
from live import operations as live
from postgres import clock
from scheduling import operations as scheduling
from webhooks.models import Reconciliation
from webhooks.operations import processing
from webhooks.queries import inbox, maintenance

# Longer than any wait in a healthy cluster's queue, so that what is merely slow is left alone.
LATE_S: Final = 120.0
BATCH: Final = 500
_MOST_DETAILS: Final = 100
_KEPT: Final = 2000  # rounds: a week, at one every five minutes
PROCESS: Final = f"{processing.process.__module__}.{processing.process.__qualname__}"


@scheduling.action(timeout=600, idempotent=True, own_writes=True)
def reconcile() -> dict[str, Any]:
    """Find and mend: deliveries that nothing will process, jobs past their lease or time, files that no job knows.

    What a round found is kept as a row of its own; also the result: how many of each.
    """
    deliveries = reschedule_stuck()
    swept = jobs.sweep()
    files = jobs.delete_orphaned_files(now=clock.now())
    findings = {
        "deliveries": deliveries,
        "jobs": {"taken_back": swept.taken_back, "expired": swept.expired},
        "files": files[:_MOST_DETAILS],
    }
    return report(findings=findings, files=len(files))


@scheduling.mutation
def reschedule_stuck() -> list[int]:
    """Schedule the processing of deliveries that wait and have no run, up to 500; their ids.

    One whose run died with its process counts that as a failed attempt, so it does not kill processes for ever.
    """
    rows = inbox.stuck(function=PROCESS, late_s=LATE_S, limit=BATCH)
    for row in rows:
        if row.error is None:
            scheduling.run_after(0, processing.process, delivery=row.id, row_pointer=row.row_pointer)
        else:
            processing.record_failure(delivery=row.id, row_pointer=row.row_pointer, error=row.error)
    return [row.id for row in rows]


@scheduling.mutation
def report(*, findings: dict[str, Any], files: int) -> dict[str, Any]:
    """Keep what a round found; the same as numbers."""
    numbers = {
        "deliveries_without_run": len(findings["deliveries"]),
        "jobs_without_end": findings["jobs"]["taken_back"] + findings["jobs"]["expired"],
        "files_without_job": files,
    }
    details = findings | {"deliveries": findings["deliveries"][:_MOST_DETAILS]}
    with transaction.atomic():
        maintenance.keep_reconciliation(Reconciliation(details=details, **numbers))
        maintenance.forget_reconciliations(keep=_KEPT)
        live.touch("reconciliations")
    return numbers
