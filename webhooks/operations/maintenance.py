"""What the crons do for the inbox: reconcile, and drain the queue of sandbox telemetry.

Nothing should have to be reconciled: a delivery and its run are one transaction. But rows are deleted by hand, backups
are restored in parts, a run may kill its process each time, and a process may die between a file and its row.
"""

import logging
import time
from typing import Any, Final

from django.db import transaction

from jobs import operations as jobs
from live import operations as live
from postgres import clock
from scheduling import operations as scheduling
from webhooks.models import Reconciliation
from webhooks.operations import attempts
from webhooks.queries import inbox

log = logging.getLogger(__name__)
# Longer than any wait in a healthy cluster's queue, so that what is merely slow is left alone.
LATE_S: Final = 120.0
STUCK_BATCH: Final = 500
_MOST_DETAILS: Final = 100
_KEPT: Final = 2000  # rounds: a week, at one every five minutes
PROCESS: Final = f"{attempts.process.__module__}.{attempts.process.__qualname__}"


@scheduling.action(timeout=600, idempotent=True, own_writes=True)
def reconcile() -> dict[str, Any]:
    """Find and mend: deliveries that nothing will process, jobs past their lease or time, files that no job knows.

    What a round found is kept as a row of its own; also the result: how many of each. What of it fails keeps the rest
    from nothing, and is in the row and in the error that it ends with.
    """
    failures = scheduling.Failures()
    deliveries: list[int] = []
    files: list[str] = []
    ended = {"taken_back": 0, "expired": 0}
    with failures.aside("deliveries"):
        deliveries = reschedule_stuck()
    with failures.aside("jobs"):
        swept = jobs.sweep()
        ended = {"taken_back": swept.taken_back, "expired": swept.expired}
    with failures.aside("files"):
        files = jobs.delete_orphaned_files(now=clock.now())
    findings = {"deliveries": deliveries, "jobs": ended, "files": files[:_MOST_DETAILS]}
    failed: dict[str, Any] = {"failed": dict(failures.reasons)} if failures.reasons else {}
    numbers = report(findings=findings | failed, files=len(files))
    failures.raise_any()
    return numbers


@scheduling.mutation
def reschedule_stuck() -> list[int]:
    """Schedule the processing of deliveries that wait and have no run, up to 500; their ids.

    One whose run died with its process counts that as a failed attempt, so it does not kill processes for ever. One
    for which not even that can be written stays as it is, and is counted as late.
    """
    rows = inbox.stuck(function=PROCESS, late_s=LATE_S, limit=STUCK_BATCH)
    failures = scheduling.Failures()
    for row in rows:
        with failures.aside(f"delivery {row.id}"):
            if row.error is None:
                scheduling.run_after(0, attempts.process, delivery=row.id, row_pointer=row.row_pointer)
            else:
                attempts.record_failure(delivery=row.id, row_pointer=row.row_pointer, error=row.error)
    return [row.id for row in rows if f"delivery {row.id}" not in failures.reasons]


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
        Reconciliation.objects.create(details=details, **numbers)
        oldest = Reconciliation.objects.order_by("-pk").values_list("pk", flat=True)[_KEPT - 1 : _KEPT]
        Reconciliation.objects.filter(pk__lt=next(iter(oldest), 0)).delete()
        live.touch("reconciliations")
    return numbers


# One transaction each: large enough that its commit is shared by many, small enough to be run again when it collides.
DRAIN_BATCH: Final = 50
_READ_AT_ONCE: Final = 1000
# Less than the cron's half minute, so that a firing ends before the next; what is left is the next one's.
BUDGET_S: Final = 25.0


@scheduling.action(timeout=120, idempotent=True)
def drain_sandbox_queue() -> int:
    """Process telemetry that waits, oldest first, for 25 seconds at most; how many deliveries that were.

    An action, because many transactions follow one another; each batch is a mutation. Of one that fails each delivery
    is processed alone, and the one that it fails for has failed.
    """
    until = time.monotonic() + BUDGET_S
    done = 0
    while waiting := inbox.waiting_telemetry(_READ_AT_ONCE):
        before = done
        for start in range(0, len(waiting), DRAIN_BATCH):
            if time.monotonic() >= until:
                return done
            done += _processed(waiting[start : start + DRAIN_BATCH])
        if done == before:  # somebody else has all of them
            break
    return done


def _processed(deliveries: list[int]) -> int:
    try:
        return attempts.process_batch(deliveries=deliveries)
    except Exception as error:
        if scheduling.is_away(error):
            raise
        if len(deliveries) > 1:
            return sum(_processed([one]) for one in deliveries)
        log.exception("The delivery %d cannot be processed", deliveries[0])
        attempts.record_failure(delivery=deliveries[0], error=scheduling.reason_of(error))
        return 1
