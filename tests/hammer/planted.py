"""Faults that a run may be given, to see that the checker notices: a guard of a statement is taken out."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from postgres import statements

# By the fault's name: the statement, what stands there, and what then does.
FAULTS: Final = {
    "fence": (
        ("lock_held", "AND job.fence = lease.fence AND job.lease_secret = lease.secret", ""),
        ("succeed", "AND job.fence = lease.fence AND job.lease_secret = lease.secret", ""),
        ("lock_held", "WHERE job.worker_id = %(worker)s::bigint", "WHERE job.worker_id IS NOT NULL"),
        ("succeed", "WHERE job.worker_id = %(worker)s::bigint", "WHERE job.worker_id IS NOT NULL"),
    ),
    "ceiling": (
        (
            "claim",
            "jobs_room(queue.name, NOT %(only_if_idle)s::boolean) AS room",
            "(SELECT 9::bigint FROM jobs_queue AS q WHERE q.name = queue.name AND q.ceiling IS NOT NULL) AS room",
        ),
    ),
}


def plant(fault: str) -> None:
    """Have this process run the statements of jobs with this fault; "" is none."""
    for name, guard, instead in FAULTS.get(fault, ()):
        whole = statements.load("jobs", name)
        assert guard in whole.sql, f"{guard} does not stand in {name}.sql any more"
        _in_place(name, replace(whole, sql=whole.sql.replace(guard, instead)))


def _in_place(name: str, statement: statements.Statement) -> None:
    load: Callable[[str, str], statements.Statement] = statements.load
    statements.load = lambda app, wanted: statement if (app, wanted) == ("jobs", name) else load(app, wanted)  # type: ignore[assignment]
