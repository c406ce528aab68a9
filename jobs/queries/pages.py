"""Reads of the pages and of event streams: jobs, for one viewer or (EVERYBODY) for operators.

`viewer` is the id of a person, who sees their own and their groups' jobs, or EVERYBODY for all there are. It
is an argument and not a user, because live queries are read once for all who watch with the same arguments.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any, Final

from django.db.models import F, Q

from core.refusal import existing
from jobs import kinds
from jobs.domain import payloads
from jobs.domain.changes import Wanted
from jobs.domain.filters import AGES, Filters
from jobs.domain.outputs import error_key, error_pattern
from jobs.domain.states import Status
from jobs.errors import NotFound
from jobs.models import ENDED_ONES, RUNNING, Attempt, Job, Kind, Offspring, Origin, Outcome, ResultFile, Share, Stage
from jobs.queries import lists, reads
from postgres import clock

EVERYBODY = lists.EVERYBODY
HEALTH_OF = 20  # ended jobs that the health line speaks of
MOST_FILES = 200
_KNOWN: ContextVar[Job | None] = ContextVar("known_job", default=None)
MOST_FAILURES: Final = 2_000  # of the newest of each status are read
MOST_READ: Final = 2_000  # jobs that one statement looks at
MOST_MISSED: Final = 1_000  # jobs that are sent to one who comes back
MOST_ENDED: Final = 20_000  # ends that are looked through for that
SHOWN: Final = 100  # jobs that are sent to one who is new
Span = tuple[int, int]  # ids, the first and the last


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How jobs ended: of `ended` (canceled ones left out) `succeeded`, after `mean_s` seconds on average."""

    ended: int
    succeeded: int
    mean_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSnapshot:
    """How a job stands. `attempt` is its claim number, 0 while no worker ever had it; `progress` from 0 to 1."""

    status: Status
    attempt: int
    progress: float | None
    detail: str
    worker_name: str


def running(*, viewer: int, limit: int) -> list[Job]:
    """The jobs that run now, the newest first, `limit` at most."""
    return lists.newest([arm & RUNNING for arm in lists.whose(viewer)], limit=limit)


def ended(*, viewer: int, limit: int = HEALTH_OF) -> list[Job]:
    """The jobs that ended last, `limit` at most; of a person's, the last ended of the newest."""
    if viewer == EVERYBODY:
        ends = Job.objects.ended().order_by("-outcome__ended_at", "-outcome")
        return list(lists.dressed(ends)[:limit])
    latest = lists.newest([arm & ENDED_ONES for arm in lists.whose(viewer)], limit=limit)
    return sorted(latest, key=lambda job: (job.ended_at, job.pk), reverse=True)


def health(jobs: Sequence[Job]) -> Health:
    """What these ended jobs say about how well the farm does."""
    judged = [job for job in jobs if job.status != Status.CANCELED]
    times = [_ran_s(job) for job in judged if job.status == Status.SUCCESS]
    succeeded = len(times)
    mean_s = sum(times) / succeeded if succeeded else None
    return Health(ended=len(judged), succeeded=succeeded, mean_s=mean_s)


@contextmanager
def known(job: Job) -> Iterator[None]:
    """Within this, `job` and `job_with_body` give this one, which was read with all that they read: a page has seven
    parts about it."""
    before = _KNOWN.set(job)
    try:
        yield
    finally:
        _KNOWN.reset(before)


def job(job_id: int) -> Job | None:
    """A job with its owner and group, whoever asks."""
    if (here := _KNOWN.get()) is not None and here.pk == job_id:
        return here
    return Job.objects.select_related("owner", "group", "live__lane").filter(pk=job_id).first()


def job_with_body(job_id: int) -> Job | None:
    """A job with its payload and result, whoever asks."""
    if (here := _KNOWN.get()) is not None and here.pk == job_id:
        return here
    return Job.objects.whole().select_related("owner", "group").filter(pk=job_id).first()


def retries(job_id: int) -> list[int]:
    return list(Job.objects.filter(retry_of_id=job_id).order_by("pk").values_list("pk", flat=True)[:20])


def attempts(job_id: int, *, limit: int = 50) -> list[Attempt]:
    """The last attempts of a job that ended without success, newest first, `limit` at most."""
    return list(Attempt.objects.filter(job_id=job_id).order_by("-number")[:limit])


def stages(job_id: int, *, limit: int = 1000) -> dict[int, list[Stage]]:
    """The details that each attempt reported, in order, by its number; of the latest `limit` stages."""
    by_attempt: dict[int, list[Stage]] = {}
    latest = Stage.objects.filter(job_id=job_id).order_by("-attempt", "-number")[:limit]
    for stage in reversed(latest):
        by_attempt.setdefault(stage.attempt, []).append(stage)
    return by_attempt


def origin(job_id: int) -> int | None:
    """The scheduled function that submitted this job, if one did."""
    return Origin.objects.filter(job_id=job_id).values_list("function_id", flat=True).first()


def offspring(job_id: int, *, limit: int = 20) -> list[int]:
    """The scheduled functions that this job's moves made, the newest first, `limit` at most."""
    made = Offspring.objects.filter(job_id=job_id).order_by("-function_id")
    return list(made.values_list("function_id", flat=True)[:limit])


def latest_files(job_id: int) -> list[ResultFile]:
    """The files of a job by name; of several attempts that handed in the same name, the latest one's."""
    files = ResultFile.objects.filter(job_id=job_id).order_by("name", "-attempt").distinct("name")
    return list(files[:MOST_FILES])


def files_by_attempt(job_id: int) -> dict[int, list[ResultFile]]:
    """The files of each attempt by name, by the attempt's claim number; of the latest MOST_FILES."""
    by_attempt: dict[int, list[ResultFile]] = {}
    latest = ResultFile.objects.filter(job_id=job_id).order_by("-attempt", "name")[:MOST_FILES]
    for file in latest:
        by_attempt.setdefault(file.attempt, []).append(file)
    return by_attempt


def file(job_id: int, *, name: str, attempt: int | None) -> ResultFile | None:
    """The file of this name that this attempt handed in; without an attempt, the latest that did."""
    if "\x00" in name:
        return None
    files = ResultFile.objects.filter(job_id=job_id, name=name)
    return (files if attempt is None else files.filter(attempt=attempt)).order_by("-attempt").first()


def share(job_id: int) -> Share | None:
    return reads.links().filter(job_id=job_id).first()


def is_shared(job_id: int, *, token: str) -> bool:
    return reads.links().filter(job_id=job_id, token=token).exists()


def known_kinds() -> list[str]:
    """The names of all kinds, declared in code or made by people."""
    return sorted({*kinds.DECLARED, *Kind.objects.values_list("name", flat=True)})


def snapshot(job_id: int) -> JobSnapshot:
    """The status of this job now. Raises NotFound."""
    row = existing(job(job_id), NotFound())
    return JobSnapshot(
        status=Status(row.status), attempt=row.fence, progress=row.progress, detail=row.detail or "",
        worker_name=row.worker_name or "",
    )  # fmt: skip


def pictures(job_id: int, *, attempt: int) -> list[str]:
    """The names of the pictures that this attempt handed in; previews only if there is nothing else."""
    files = ResultFile.objects.filter(job_id=job_id, attempt=attempt).order_by("pk")
    return payloads.pictures(files.values_list("name", flat=True)[:MOST_FILES], has_ended=True)


def result_file(job_id: int, *, name: str, attempt: int) -> ResultFile:
    """A file that this attempt handed in, for `jobs.http.sent` and `jobs.http.signed_path`. Raises NotFound."""
    return existing(file(job_id, name=name, attempt=attempt), NotFound("There is no such file."))


def _ran_s(job: Job) -> float:
    assert job.claimed_at is not None  # a success was claimed
    assert job.ended_at is not None
    return (job.ended_at - job.claimed_at).total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """Jobs of one kind with the same error. `error` is that of the newest; `ids` are those that no job retries, the
    newest first; `retries` the jobs that retry the others, by how they stand."""

    key: str
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
    """The groups, the largest first of those that no job retries. `is_all`: no status had more than MOST_FAILURES."""

    groups: tuple[FailureGroup, ...]
    is_all: bool


def failures(*, viewer: int, age: str) -> Failures:
    """The jobs that failed, timed out, or wait to be tried again, submitted within `age` (one of AGES)."""
    since = clock.now() - AGES[age]
    statuses = (Status.FAILED, Status.TIMED_OUT, Status.PENDING)  # which failed, and is to be tried again
    every = [Filters(status=status, since=since.isoformat()) for status in statuses]
    read: list[list[Any]] = [lists.failed(viewer=viewer, filters=filters, limit=MOST_FAILURES + 1) for filters in every]
    retries = lists.retries_of(job.pk for job in chain.from_iterable(read))
    grouped: dict[str, list[Any]] = {}
    for job in chain.from_iterable(read):
        key = error_key(job.kind, job.status, error_pattern(job.last_error))
        grouped.setdefault(key, []).append(job)
    made = [_group(name, jobs, retries) for name, jobs in grouped.items()]
    groups = sorted(made, key=lambda group: -len(group.ids))
    return Failures(groups=tuple(groups), is_all=all(len(jobs) <= MOST_FAILURES for jobs in read))


def _group(name: str, jobs: Iterable[Any], retries: Mapping[int, Job]) -> FailureGroup:
    newest, *_ = ordered = sorted(jobs, key=lambda job: -job.pk)
    times = [job.ended_at or job.claimed_at or job.created_at for job in ordered]
    workers = Counter(job.worker_name for job in ordered if job.worker_name)
    again: dict[str, list[int]] = {}
    for retry in (retries[job.pk] for job in ordered if job.pk in retries):
        again.setdefault(retry.status, []).append(retry.pk)
    return FailureGroup(
        key=name, kind=newest.kind, status=newest.status, error=newest.last_error,
        ids=tuple(job.pk for job in ordered if job.pk not in retries), retries=again,
        first_at=min(times), last_at=max(times), workers=tuple(workers.most_common()),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """Jobs that may have changed since a client looked; `is_all`: there are no others."""

    job_ids: Sequence[int]
    is_all: bool = True


def among(job_ids: Collection[int], spans: Sequence[Span], wanted: Collection[Wanted]) -> list[Any]:
    """Those of these jobs that anybody wants, with what decides that, in order of id; MOST_READ are looked at."""
    where = Q(pk__in=list(job_ids))
    for span in spans:
        where |= Q(pk__range=span)
    facts = Job.objects.filter(where).order_by("pk").annotate(username=F("owner__username"))
    rows = facts.values_list("pk", "kind", "owner_id", "username", "group_id", "flow_id", "tags", named=True)
    return [row for row in rows[:MOST_READ] if any(each.fits(row) for each in wanted)]


def newest(wanted: Wanted) -> list[int]:
    """The newest of the jobs that are wanted, SHOWN at most."""
    page = lists.page(viewer=wanted.viewer, filters=_filters(wanted), limit=SHOWN)
    return [job.pk for job in page.jobs]


def missed(wanted: Wanted, *, since: datetime) -> Missed:
    """What was submitted or has ended since then, of what waits and runs all; where more than MOST_LIVE jobs wait,
    those that do are left out."""
    created = lists.page(viewer=wanted.viewer, filters=_filters(wanted, since=since), limit=MOST_MISSED)
    ends = Outcome.objects.filter(ended_at__gte=since).order_by("ended_at", "pk")
    ended = list(ends.values_list("pk", flat=True)[: MOST_ENDED + 1])
    running, waiting = lists.live_ids(Status.IN_PROGRESS), lists.live_ids(Status.PENDING)
    others = [*ended, *(running or ()), *(waiting or ())]
    parts = (others[start : start + MOST_READ] for start in range(0, len(others), MOST_READ))
    fitting = [job.pk for part in parts for job in among(part, [], [wanted])]
    ids = sorted({*(job.pk for job in created.jobs), *fitting})
    is_all = created.older is None and len(ended) <= MOST_ENDED and running is not None and len(ids) <= MOST_MISSED
    return Missed(job_ids=ids, is_all=is_all)


def _filters(wanted: Wanted, *, since: datetime | None = None) -> Filters:
    moment = "" if since is None else since.isoformat()
    flow = "" if wanted.flow is None else str(wanted.flow)
    return Filters(tag=",".join(wanted.tags), kind=wanted.kind, owner=wanted.owner, flow=flow, since=moment)
