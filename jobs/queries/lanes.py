"""Statements about lanes and their marks."""

from collections.abc import Sequence

from postgres import statements, transactions


def tidy(
    *, lanes: Sequence[int] | None = None, queues: Sequence[str] | None = None, after: int = 0, limit: int
) -> list[statements.Row]:
    """Move the marks of these lanes, of these queues' or of all, that are awake and whose id is above `after`, to what
    waits first in them: rows of `lane_id`, `queue`, `asleep` (null of one that somebody puts jobs into) and `awake`
    (sql/tidy.sql), in order of id."""
    rows = statements.load("jobs", "tidy").run({"lanes": lanes, "queues": queues, "after": after, "limit": limit})
    return sorted(rows, key=lambda row: row.lane_id)


def keep_apart() -> None:
    """Have each queue keep owners apart that a member's worker may take from."""
    statements.load("jobs", "keep_apart").run()


def lock_crowded(limit: int, but_for: Sequence[int] = (), *, owner_id: int | None = None) -> list[statements.Row]:
    """Lock jobs, except these ids, that wait in lanes of all owners where their queue keeps owners apart by now: of
    this person and their groups, or (None) of everybody. Rows of `id`, `kind`, `queue`."""
    params = {"owner": owner_id, "limit": limit, "but_for": list(but_for)}
    return statements.load("jobs", "lock_crowded").run(params)


def part(job_ids: Sequence[int]) -> None:
    """Move these locked jobs, which wait, to the lanes of what their rows say now."""
    statements.load("jobs", "part").run({"ids": list(job_ids)})


@transactions.retried
def delete(limit: int, _: int) -> int:
    """Delete lanes that have been asleep; how many."""
    return len(statements.load("jobs", "delete_lanes").run({"limit": limit}))


def untidied(*, limit: int) -> int:
    """How many lanes, of so many at most, are awake although nothing waits in them, and no mere moment ago."""
    [row] = statements.load("jobs", "untidied").run({"limit": limit})
    return int(row.lanes)
