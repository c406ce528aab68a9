"""Whether more jobs may wait: of one owner, and in all (docs/adr/0057).

Nothing is counted on a submit's way. Each process knows how many waited some seconds ago and adds what it lets in
itself; only what would be refused by that is counted, and refused by that number alone.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from jobs.domain.quotas import Ledger
from jobs.errors import TooManyWaiting
from jobs.models import ALL_JOBS
from jobs.operations import quotas
from jobs.queries import submits, usage
from jobs.queries.usage import Used
from postgres import transactions

WAITING: Final = Ledger()
RETRY_AFTER_S: Final = 10  # waiting jobs leave as workers take them; nobody knows when
_COUNTED_S: Final = (
    60.0  # what the cron counted is good for so long; then a cluster is missing, and it is counted here
)
# Where so many wait, counting takes milliseconds: it is done a twentieth of the time at most, however often somebody is
# refused.
_MANY: Final = 10_000
_NOT_BEFORE_S: Final[dict[int, float]] = {}
_MOST_SPARED: Final = 1000  # owners that are remembered for it
_BEYOND: Final = 1000  # so far over the quota the number in a refusal is exact


def admit(rows: Sequence[dict[str, Any]]) -> None:
    """Raise TooManyWaiting unless all of these new jobs may wait; of those with a living twin, which are not stored,
    nothing is asked.

    Jobs without an owner are under the quota in all alone. What is let in is counted by this process at once and by
    the others within some seconds: so much may pass a quota.
    """
    bounds = list(_bounds(rows))
    _read([owner for owner, _, _ in bounds])
    for owner, of, quota in bounds:
        mine = [row for row in rows if owner in {ALL_JOBS, row["owner_id"]}]
        if WAITING.used(owner) + len(mine) > quota:
            _check(owner, of, quota, mine)
    for owner, count in _counts(rows).items():
        WAITING.add(owner, count)


def waiting(owner: int, stored: Used) -> int:
    """How many jobs of this owner wait now, counted up to some more than the quota; of the farm what the cron counted,
    where it did lately."""
    return stored.waiting if owner == ALL_JOBS and _is_counted(stored) else _counted(owner)


def forget() -> None:
    """Know nothing of what waits: for tests that begin anew."""
    WAITING.forget()
    _NOT_BEFORE_S.clear()


def _bounds(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[int, str, int]]:
    """Whose quotas these jobs come under, with the word for it, and how many may wait."""
    per_owner, in_all = quotas.bound("WAITING_JOBS_PER_OWNER"), quotas.bound("WAITING_JOBS_IN_ALL")
    if per_owner is not None:
        yield from ((owner, "owner", per_owner) for owner in _counts(rows) if owner != ALL_JOBS)
    if in_all is not None:
        yield ALL_JOBS, "farm", in_all


def _counts(rows: Sequence[dict[str, Any]]) -> dict[int, int]:
    owned = Counter(row["owner_id"] for row in rows)
    return {owner: count for owner, count in owned.items() if owner is not None} | {ALL_JOBS: len(rows)}


def _read(owners: Sequence[int]) -> None:
    """Of those that this process has not read lately, what the cron counted. Where it has not for long it is counted
    here, but for a serializable transaction, which would collide with all that submit."""
    now_s = time.monotonic()
    if not (stale := [owner for owner in owners if not WAITING.is_fresh(owner, now_s=now_s)]):
        return
    for owner, used in usage.of(stale).items():
        if _is_counted(used) or transactions.is_serializable():
            WAITING.read_of_before(owner, used.waiting, now_s=now_s)
        else:
            _counted(owner)


def _check(owner: int, of: str, quota: int, rows: Sequence[dict[str, Any]]) -> None:
    """Count, and raise TooManyWaiting where these have no room."""
    used = _counted(owner)
    more = len(rows)
    if used + more > quota:
        more -= len(submits.living_twins([row for row in rows if row["unique_key"]]))
    if more and used + more > quota:
        raise TooManyWaiting(
            what="waiting jobs", of=of, quota=quota, used=used, more=more, retry_after=RETRY_AFTER_S
        )


def _is_counted(stored: Used) -> bool:
    return stored.counted_ago_s is not None and stored.counted_ago_s < _COUNTED_S


def _counted(owner: int) -> int:
    """How many wait now. Where many were counted a moment ago: how many waited then, and what came since."""
    began_s = time.monotonic()
    if began_s < _NOT_BEFORE_S.get(owner, 0.0):
        return WAITING.used(owner)
    setting = "WAITING_JOBS_IN_ALL" if owner == ALL_JOBS else "WAITING_JOBS_PER_OWNER"
    used = usage.waiting(owner, limit=quotas.allowed(setting) + _BEYOND)
    WAITING.read(owner, used, now_s=began_s)
    if used > _MANY:
        _spare(owner, until_s=began_s + 20 * (time.monotonic() - began_s))
    return used


def _spare(owner: int, *, until_s: float) -> None:
    if len(_NOT_BEFORE_S) >= _MOST_SPARED:
        _NOT_BEFORE_S.clear()
    _NOT_BEFORE_S[owner] = until_s
