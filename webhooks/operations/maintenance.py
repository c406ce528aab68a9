"""What the crons do for the inbox: reconcile, drain the queue of sandbox telemetry, and forget what ended long ago.

Nothing should have to be reconciled: a delivery and its run are one transaction. But rows are deleted by hand, backups
are restored in parts, a run may kill its process each time, and a process may die between a file and its row.
"""

import time
from datetime import timedelta
from typing import Any, Final

from django.conf import settings
from django.db import transaction

from jobs import operations as jobs
from live import operations as live
from postgres import clock
from scheduling import operations as scheduling
from webhooks.domain.names import Source
from webhooks.models import Reconciliation
from webhooks.operations import activity, attempts
from webhooks.queries import inbox, maintenance

# Longer than any wait in a healthy cluster's queue, so that what is merely slow is left alone.
LATE_S: Final = 120.0
STUCK_BATCH: Final = 500
_MOST_DETAILS: Final = 100
_KEPT: Final = 2000  # rounds: a week, at one every five minutes
PROCESS: Final = f"{attempts.process.__module__}.{attempts.process.__qualname__}"


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
    rows = inbox.stuck(function=PROCESS, late_s=LATE_S, limit=STUCK_BATCH)
    for row in rows:
        if row.error is None:
            scheduling.run_after(0, attempts.process, delivery=row.id, row_pointer=row.row_pointer)
        else:
            attempts.record_failure(delivery=row.id, row_pointer=row.row_pointer, error=row.error)
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


# One transaction each: large enough that its commit is shared by many, small enough to be run again when it collides.
DRAIN_BATCH: Final = 50
_READ_AT_ONCE: Final = 1000
# Less than the cron's half minute, so that a firing ends before the next; what is left is the next one's.
BUDGET_S: Final = 25.0


@scheduling.action(timeout=120, idempotent=True)
def drain_sandbox_queue() -> int:
    """Process telemetry that waits, oldest first, for 25 seconds at most; how many deliveries that were.

    An action, because many transactions follow one another; each batch is a mutation.
    """
    until = time.monotonic() + BUDGET_S
    done = 0
    while waiting := inbox.waiting_telemetry(_READ_AT_ONCE):
        before = done
        for start in range(0, len(waiting), DRAIN_BATCH):
            if time.monotonic() >= until:
                return done
            done += attempts.process_batch(deliveries=waiting[start : start + DRAIN_BATCH])
        if done == before:  # somebody else has all of them
            break
    return done


FORGET_BATCH: Final = 500
# Bodies of these carry code, prompts and whatever tools printed.
_SANDBOX: Final = (Source.SANDBOX_HOOKS, Source.SANDBOX_TELEMETRY)


@scheduling.mutation
def forget_batch(*, sources: list[str], days: float) -> int:
    """Forget one batch; how many deliveries that were."""
    with transaction.atomic():
        return inbox.forget(
            older_than=timedelta(days=days), sources=[Source(name) for name in sources], limit=FORGET_BATCH
        )


@scheduling.mutation
def forget_refusals(*, days: float) -> int:
    """Forget counters of refusals; how many that were."""
    return inbox.forget_refusals(older_than=timedelta(days=days))


@scheduling.action(timeout=600, idempotent=True)
def retain() -> int:
    """Forget deliveries that ended well longer ago than WEBHOOKS["RETENTION_DAYS"], of sandboxes than
    ["SANDBOX_RETENTION_DAYS"], with counters of refusals, activity and telemetry as old; how many deliveries that were.

    The days are more than any sender resends for: a delivery that was forgotten would count as new.
    """
    others = [source.value for source in Source if source not in _SANDBOX]
    done = _forget_all(others, days=settings.WEBHOOKS["RETENTION_DAYS"])
    done += _forget_all(
        [source.value for source in _SANDBOX], days=settings.WEBHOOKS["SANDBOX_RETENTION_DAYS"]
    )
    forget_refusals(days=settings.WEBHOOKS["RETENTION_DAYS"])
    now = clock.now()
    activity.prune(
        activity_before=(now - timedelta(days=settings.WEBHOOKS["RETENTION_DAYS"])).isoformat(),
        telemetry_before=(now - timedelta(days=settings.WEBHOOKS["SANDBOX_RETENTION_DAYS"])).isoformat(),
    )
    return done


def _forget_all(sources: list[str], *, days: float) -> int:
    done = 0
    while batch := forget_batch(sources=sources, days=days):
        done += batch
    return done
