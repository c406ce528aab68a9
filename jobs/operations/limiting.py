"""A kind's own limit: each job takes its tokens when it is submitted, and a job that never started gives them back.

The order of locks is the same for all: rows of jobs, then those of limits (by name and key), then what is written.
Whoever wrote a job first and asked for the limit then would meet a submit of a twin, which holds the limit and waits
to see whether that job has ended, in a circle.
"""

import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any

from core.backoff import LONGEST_S
from jobs.domain import reservations
from jobs.domain.kinds import Kind
from jobs.errors import InvalidValue
from ratelimits import operations as limits
from ratelimits.operations import RateLimited, UnknownLimit

Group = tuple[str, str | None]  # the name of a limit, and a key


def check_count(kind: Kind, count: float | None) -> None:
    """Raise InvalidValue unless a job of this kind may take `count` tokens instead of the kind's own number."""
    if count is None:
        return
    if kind.limit is None:
        raise InvalidValue(field="limit_count", why=f"the kind {kind.name} takes of no limit")
    if not (math.isfinite(count) and count > 0):
        raise InvalidValue(field="limit_count", why=f"a positive number, got {count}")


def columns(kind: Kind, *, owner_id: int | None, count: float | None = None) -> dict[str, Any]:
    """What the row of a new job says of its kind's limit. `limit_wait_s` is for `reserve` to fill in."""
    if kind.limit is None:
        return {"limit_name": None, "limit_key": None, "limit_count": None, "limit_wait_s": None}
    return {
        "limit_name": kind.limit,
        "limit_key": kind.key_for(owner_id),
        "limit_count": kind.limit_count if count is None else count,
        "limit_wait_s": None,
    }


def reserve(rows: Iterable[dict[str, Any]], *, rng: random.Random) -> None:
    """Take for these new jobs what their kinds say, ahead of time where it must be, and note how long each waits.

    One decision for each limit and key, in one order, in the caller's transaction. Raises RateLimited where the limit
    lets nobody so far ahead (`max_reserved`, or five years), CountExceedsLimit where it never will, UnknownLimit for a
    kind whose limit is declared no more; then the caller's transaction takes everything back.
    """
    for (name, key), group in _grouped(rows, lambda row: (row["limit_name"], row["limit_key"])):
        counts = [row["limit_count"] for row in group]
        for row, wait_s in zip(group, _waits_s(name, key, counts), strict=True):
            row["limit_wait_s"] = None if wait_s is None else reservations.with_jitter(wait_s, rng=rng)


def give_back(rows: Iterable[dict[str, Any]]) -> None:
    """Put back what `reserve` took for these: they were not stored."""
    for (name, key), group in _grouped(rows, lambda row: (row["limit_name"], row["limit_key"])):
        _give_back(name, key, sum(row["limit_count"] for row in group))


def give_back_of_unstarted(jobs: Iterable[Any]) -> None:
    """Put back what these locked jobs, which the caller is about to end, took and will not use.

    That is those no worker ever spoke for: each ends once, so each gives back once. Of one whose limit is declared no
    more nothing is left to give.
    """
    never_ran = [job for job in jobs if job.confirmed_fence == 0]
    for (name, key), group in _grouped(never_ran, lambda job: (job.limit_name, job.limit_key)):
        _give_back(name, key, sum(job.limit_count for job in group))


def _grouped(things: Iterable[Any], group_of: Callable[[Any], Any]) -> Iterator[tuple[Group, list[Any]]]:
    """The things that took of a limit, by limit and key, in the order in which all lock them."""
    groups: dict[Group, list[Any]] = defaultdict(list)
    for thing in things:
        name, key = group_of(thing)
        if name is not None:
            groups[name, key].append(thing)
    yield from sorted(groups.items(), key=lambda entry: (entry[0][0], entry[0][1] or ""))


def _waits_s(name: str, key: str | None, counts: Sequence[float]) -> list[float | None]:
    answer = limits.limit(name, key=key, count=sum(counts), reserve=True)
    wait = answer.retry_after
    if wait is not None and not (answer.ok and wait <= timedelta(seconds=LONGEST_S)):
        raise RateLimited(name=name, key=key, retry_after=wait)
    assert answer.remaining is not None  # it was granted
    last_s = None if wait is None else wait.total_seconds()
    return reservations.waits_s(limits.config_of(name), counts, remaining=answer.remaining, last_s=last_s)


def _give_back(name: str, key: str | None, count: float) -> None:
    try:
        limits.give_back(name, key=key, count=count)
    except UnknownLimit:
        return
