"""Statements about what the jobs of owners, and all jobs, keep (docs/adr/0057)."""

from collections.abc import Iterable, Sequence
from typing import Final

from jobs.models import ALL_JOBS, Live, Usage
from postgres import statements

Row = statements.Row
_LOCKS: Final = 1_784_635_257  # the first of the two numbers of these advisory locks; the second is the owner's


def of(owners: Iterable[int]) -> dict[int, Row]:
    """What is kept now, by owner (ALL_JOBS: all jobs): rows of `waiting` (counted `counted_ago_s` ago; None: never),
    `output_bytes` (of a running job by whole MiB), `files` and `file_bytes`."""
    rows = statements.load("jobs", "usage").run({"owners": list(owners)})
    return {row.owner_id: row for row in rows}


def waiting(owner: int, *, limit: int) -> int:
    """How many jobs of this owner (ALL_JOBS: in all) wait now, counted up to a limit."""
    jobs = Live.objects.filter(lease_secret=None)
    theirs = (
        jobs if owner == ALL_JOBS else jobs.filter(owner=owner).order_by("queue", "lane_id")
    )  # as their index has it
    return theirs[:limit].count()


def running_output(owner: int) -> int:
    """What running jobs of this owner (ALL_JOBS: all) wrote beyond what `of` has. Reads all running jobs."""
    [row] = statements.load("jobs", "usage_running").run({"owner": owner})
    return int(row.output_bytes)


def lock(owner: int) -> None:
    """Wait for other transactions that hold this owner's lock, and hold it until the end of this one."""
    statements.load("jobs", "usage_lock").run({"class": _LOCKS, "owner": owner})


def fold() -> None:
    """Add what changed to what is kept. Under the lock of ALL_JOBS."""
    statements.load("jobs", "usage_fold").run()


def count_waiting() -> None:
    """Count the waiting jobs of all owners. Under the lock of ALL_JOBS."""
    statements.load("jobs", "usage_count_waiting").run()


def recount() -> Sequence[Row]:
    """Count all anew, after a fold under the lock of ALL_JOBS; the rows that were wrong, with what had been counted."""
    return statements.load("jobs", "usage_recount").run()


def forget_empty() -> int:
    """Delete the rows of owners whose jobs keep nothing; how many."""
    nothing = {"waiting": 0, "output_bytes": 0, "files": 0, "file_bytes": 0}
    return Usage.objects.filter(**nothing).exclude(pk=ALL_JOBS).delete()[0]


def was_recounted() -> bool:
    """Whether all was ever counted anew: what was there before the triggers is in it only then."""
    return Usage.objects.filter(pk=ALL_JOBS, recounted_at__isnull=False).exists()
