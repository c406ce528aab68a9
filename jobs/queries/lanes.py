"""Statements about lanes and their marks."""

from collections.abc import Sequence

from django.contrib.auth.models import User
from django.db.models.functions import Now

from jobs.models import Mark, PausedOwner
from postgres import statements, transactions


def tidy(
    *, lanes: Sequence[int] | None = None, queues: Sequence[str] | None = None, after: int = 0, limit: int
) -> list[statements.Row]:
    """Move the marks of these lanes, of these queues' or of all, that are awake and whose id is above `after`, to what
    waits first in them: rows of `lane_id`, `queue`, `asleep` (null of one that somebody puts jobs into) and `awake`
    (sql/tidy.sql), in order of id."""
    rows = statements.load("jobs", "tidy").run({"lanes": lanes, "queues": queues, "after": after, "limit": limit})
    return sorted(rows, key=lambda row: row.lane_id)


def next_awake(after: int) -> int:
    """The id of the next lane that `tidy` would look at."""
    awake = Mark.objects.filter(lane_id__gt=after, at__lte=Now()).order_by("lane_id")
    return awake.values_list("lane_id", flat=True).first() or after + 1


def keep_apart() -> None:
    """Have each queue keep owners apart that a member's worker may take from."""
    statements.load("jobs", "keep_apart").run()


def lock_crowded(limit: int, but_for: Sequence[int] = (), *, owner_id: int | None = None) -> list[statements.Row]:
    """Lock jobs, except these ids, that wait in lanes of all owners where their queue keeps owners apart by now: of
    this person and their groups, or (None) of everybody, and then also those that do not wait in lanes of the shares
    that their queue has by now. Rows of `id`, `kind`, `queue`."""
    params = {"owner": owner_id, "limit": limit, "but_for": list(but_for)}
    return statements.load("jobs", "lock_crowded").run(params)


def lock_of_paused(limit: int, but_for: Sequence[int] = ()) -> list[statements.Row]:
    """Lock jobs, except these ids, of paused owners that wait where claims look: rows of `id`, `kind`, `queue`."""
    return statements.load("jobs", "lock_of_paused").run({"limit": limit, "but_for": list(but_for)})


def lock_aged(limit: int, but_for: Sequence[int] = ()) -> list[statements.Row]:
    """Lock jobs, except these ids, that have waited for so long that they count for more than their lane does."""
    return statements.load("jobs", "lock_aged").run({"limit": limit, "but_for": list(but_for)})


def keep_paused() -> list[str]:
    """Take the marks of paused owners' lanes away, and give those of others theirs back; the queues of the latter."""
    return [row.queue for row in statements.load("jobs", "keep_paused").run()]


def keep_served() -> None:
    """Let what waits for a later moment in fair queues have been served as much as who is next there now."""
    statements.load("jobs", "keep_served").run()


def set_owner_paused(owner: User, *, paused: bool, by: User | None) -> bool:
    """Pause this person's jobs, or end that; whether that changed anything."""
    rows = PausedOwner.objects.filter(owner=owner)
    if not paused:
        return bool(rows.delete()[0])
    return PausedOwner.objects.get_or_create(owner=owner, defaults={"paused_by": by})[1]


def pause_of(owner: User) -> PausedOwner | None:
    return PausedOwner.objects.select_related("paused_by").filter(owner=owner).first()


def part(job_ids: Sequence[int]) -> None:
    """Move these locked jobs, which wait, to the lanes of what their rows say now, and of how long they waited."""
    statements.load("jobs", "part").run({"ids": list(job_ids)})


@transactions.retried
def delete(limit: int, _: int) -> int:
    """Delete lanes that have been asleep; how many."""
    return len(statements.load("jobs", "delete_lanes").run({"limit": limit}))


@transactions.retried
def fold_charges(limit: int, skip: int) -> int:
    """Add up what ended runs of so many fair queues have left, but for the first ones, where the claims do not; of how
    many."""
    return len(statements.load("jobs", "fold_charges").run({"limit": limit, "skip": skip}))


def untidied(*, limit: int) -> int:
    """How many lanes, of so many at most, are awake although nothing waits in them, and no mere moment ago."""
    [row] = statements.load("jobs", "untidied").run({"limit": limit})
    return int(row.lanes)
