"""Guards that are taken out of the test's database or of a statement, to see that schedules notice."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from postgres import statements
from tests.hammer import planted as of_statements
from tests.schedules.actors import Stage

CLAIM_OF_AN_END: Final = (  # succeed.sql compares the claim that a call names; what may stand in its place
    "live.fence = lease.fence AND live.lease_secret = lease.secret AND live.worker_id =",
    "live.lease_secret IS NOT NULL AND 0 <",
)
_FUNCTION: Final = "SELECT pg_get_functiondef(%s::regproc)"


@contextlib.contextmanager
def without(stage: Stage, function: str, guard: str, instead: str = "") -> Iterator[None]:
    """The function of the database without this guard, for the length of the block."""
    [whole] = stage.watcher.execute(_FUNCTION, [function]).fetchone() or [""]
    assert guard in whole, f"{guard} does not stand in {function} any more"
    stage.watcher.execute(whole.replace(guard, instead))
    try:
        yield
    finally:
        stage.watcher.execute(whole)


@contextlib.contextmanager
def statement_without(name: str, guard: str, instead: str) -> Iterator[None]:
    """The statement of jobs without this guard, for the length of the block."""
    whole, load = statements.load("jobs", name), statements.load
    assert guard in whole.sql, f"{guard} does not stand in {name}.sql any more"
    of_statements.put_in_place(name, replace(whole, sql=whole.sql.replace(guard, instead)))
    try:
        yield
    finally:
        statements.load = load
