"""Jobs that failed of late, grouped by what they failed of."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any, Final

from jobs.domain.filters import AGES, Filters
from jobs.domain.outputs import error_key, error_pattern
from jobs.domain.states import Status
from jobs.models import Job
from jobs.queries import lists
from postgres import clock

MOST: Final = 2_000  # of the newest of each status are read
_AGAIN: Final = Status.PENDING  # failed, and is to be tried again


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Jobs of one kind with the same error. `error` is that of the newest; `ids` are those that no job retries, the
    newest first; `retries` the jobs that retry the others, by how they stand."""

    error_key: str
    kind: str
    status: str
    error: str
    ids: tuple[int, ...]
    retries: Mapping[str, Sequence[int]]
    first_at: datetime
    last_at: datetime
    workers: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """The groups, the largest first of those that no job retries. `is_all`: false where there were more than MOST of a
    status."""

    groups: tuple[Group, ...]
    is_all: bool


def of_late(*, viewer: int, age: str) -> Failures:
    """The jobs that failed, timed out, or wait to be tried again, submitted within `age` (one of AGES)."""
    since = clock.now() - AGES[age]
    read = [_newest(viewer, status, since) for status in (Status.FAILED, Status.TIMED_OUT, _AGAIN)]
    retries = lists.retries_of(job.pk for job in chain.from_iterable(read))
    grouped: dict[str, list[Any]] = {}
    for job in chain.from_iterable(read):
        grouped.setdefault(_key(job), []).append(job)
    made = [_group(name, jobs, retries) for name, jobs in grouped.items()]
    groups = sorted(made, key=lambda group: -len(group.ids))
    return Failures(groups=tuple(groups), is_all=all(len(jobs) <= MOST for jobs in read))


def _newest(viewer: int, status: Status, since: datetime) -> list[Job]:
    filters = Filters(status=status, since=since.isoformat())
    return lists.failed(viewer=viewer, filters=filters, limit=MOST + 1)


def _key(job: Any) -> str:
    return error_key(job.kind, job.status, error_pattern(job.last_error))


def _group(name: str, jobs: Iterable[Any], retries: Mapping[int, Job]) -> Group:
    newest, *_ = ordered = sorted(jobs, key=lambda job: -job.pk)
    times = [job.ended_at or job.claimed_at or job.created_at for job in ordered]
    workers = Counter(job.worker_name for job in ordered if job.worker_name)
    again: dict[str, list[int]] = {}
    for retry in (retries[job.pk] for job in ordered if job.pk in retries):
        again.setdefault(retry.status, []).append(retry.pk)
    return Group(
        key=name, kind=newest.kind, status=newest.status, error=newest.last_error,
        ids=tuple(job.pk for job in ordered if job.pk not in retries), retries=again,
        first_at=min(times), last_at=max(times), workers=tuple(workers.most_common()),
    )  # fmt: skip
