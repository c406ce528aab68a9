"""Faults that a run may be given, to see that the checker notices: a guard of a statement is taken out."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from postgres import statements

# By the fault's name: the statement, what stands there, and what then does.
FAULTS: Final = {
    "fence": (
        (
            "lock_held",
            "job.fence = lease.fence AND job.lease_secret = lease.secret AND job.worker_id =",
            "job.lease_secret IS NOT NULL AND 0 <",
        ),
        (
            "succeed",
            "live.fence = lease.fence AND live.lease_secret = lease.secret AND live.worker_id =",
            "live.lease_secret IS NOT NULL AND 0 <",
        ),
    ),
    "push": (("submit_replacing", "payload = %(payload)s::jsonb,", "payload = payload,"),),
    "ceiling": (("claim", "(opened.it).*,", "(opened.it).room * 0 + 9 AS room, (opened.it).fair,"),),
}


def plant(fault: str) -> None:
    """Have this process run the statements of jobs with this fault; "" is none."""
    for name, guard, instead in FAULTS.get(fault, ()):
        whole = statements.load("jobs", name)
        assert guard in whole.sql, f"{guard} does not stand in {name}.sql any more"
        put_in_place(name, replace(whole, sql=whole.sql.replace(guard, instead)))


def missing() -> list[str]:
    """The guards that do not stand in their statements any more: a fault without them is none."""
    planted = [one for faults in FAULTS.values() for one in faults]
    return [guard for name, guard, _ in planted if guard not in statements.load("jobs", name).sql]


def put_in_place(name: str, statement: statements.Statement) -> None:
    """Have this process run this statement of jobs in place of the one of its name."""
    load: Callable[[str, str], statements.Statement] = statements.load
    statements.load = lambda app, wanted: statement if (app, wanted) == ("jobs", name) else load(app, wanted)  # type: ignore[assignment]
