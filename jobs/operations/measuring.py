"""Keeping the numbers of usage: folding what changed, counting what waits, and counting all anew (docs/adr/0057)."""

import logging
import time
from typing import Final

from jobs.domain.quotas import Quota
from jobs.models import ALL_JOBS
from jobs.operations import admission, quotas
from jobs.queries import usage
from postgres import transactions
from scheduling.operations import action

SETTINGS: Final = {
    "waiting jobs": "WAITING_JOBS",
    "bytes of output": "OUTPUT_BYTES",
    "files": "FILES",
    "bytes of files": "FILE_BYTES",
}
_SHARE: Final = 50  # counting what waits takes this part of the time at most, however much waits
log = logging.getLogger(__name__)


class _Counting:
    """Until when this process counts no waiting jobs again, by its own clock."""

    not_before_s = 0.0


@action(timeout=60, idempotent=True, own_writes=True)
def measure_usage() -> None:
    """Fold what changed since the last time, and count waiting jobs. The first time ever all is counted anew."""
    if not usage.was_recounted():
        recount_usage()
    began_s = time.monotonic()
    if began_s >= _Counting.not_before_s:
        _count_waiting()
        _Counting.not_before_s = began_s + _SHARE * (time.monotonic() - began_s)
    _fold()


@action(timeout=3600, idempotent=True, own_writes=True)
def recount_usage() -> int:
    """Count anew what all jobs keep, whatever the triggers counted. For how many owners (the farm is one) that was
    something else: 0, or somebody wrote past the triggers, which is a line in the log. Reads all jobs."""
    is_first = not usage.was_recounted()
    wrong = _recount()
    for row in wrong if not is_first else ():
        log.warning(
            "the usage of %s was counted as %d bytes of output, %d files of %d bytes, and is %d, %d, %d",
            "the farm" if row.owner_id == ALL_JOBS else f"owner {row.owner_id}",
            *(row.counted_output_bytes, row.counted_files, row.counted_file_bytes),
            *(row.output_bytes, row.files, row.file_bytes),
        )  # fmt: skip
    return len(wrong)


def used(owner: int) -> list[Quota]:
    """What the jobs of this owner (ALL_JOBS: all) have now, and may have; a quota of 0 is none."""
    stored = usage.of([owner])[owner]
    waiting = admission.waiting(owner, stored)
    of = "farm" if owner == ALL_JOBS else "owner"
    numbers = dict(
        zip(SETTINGS, (waiting, stored.output_bytes, stored.files, stored.file_bytes), strict=True)
    )
    return [
        Quota(
            resource=resource, of=of, quota=quotas.allowed(setting_of(resource, of=of)), used=max(0, number)
        )
        for resource, number in numbers.items()
    ]


def setting_of(resource: str, *, of: str) -> str:
    """The setting that says how much of this an owner or the farm may have."""
    return f"{SETTINGS[resource]}_{'IN_ALL' if of == 'farm' else 'PER_OWNER'}"


@transactions.retried
def _fold() -> None:
    usage.lock(ALL_JOBS)
    usage.fold()
    usage.forget_empty()


@transactions.retried
def _count_waiting() -> None:
    usage.lock(ALL_JOBS)
    usage.count_waiting()


@transactions.retried
def _recount() -> list[usage.Row]:
    usage.lock(ALL_JOBS)
    return list(usage.recount())
