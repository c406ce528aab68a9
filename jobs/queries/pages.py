"""Reads of the pages: lists of jobs, queues and workers, each for one viewer or (EVERYBODY) for operators.

`viewer` is the id of a person, who sees their own and their groups' jobs, or EVERYBODY for all there are. It is an
argument and not a user, because live queries are read once for all who watch with the same arguments.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import BooleanField, ExpressionWrapper, F, Q, QuerySet
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Left, Now
from postgres import statements

from jobs import kinds
from jobs.domain.states import ENDED, Status
from jobs.models import Attempt, Job, Kind, Queue, Share, Worker
from jobs.queries.reads import COUNT_LIMIT, AnyUser

EVERYBODY = 0
PAGE = 50  # jobs in a list
LOOK_BACK = 200_000  # ids that one page of a filtered list looks through at most: no index serves every filter
HEALTH_OF = 20  # ended jobs that the health line speaks of
MOST_QUEUES = 200
MOST_WORKERS = 200
EXCERPT = 120  # characters of a prompt in a list
_BIGGEST_ID = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What a list of jobs is narrowed to; an empty text means any. `owner` is a user name, `worker` a worker's name."""

    status: str = ""
    kind: str = ""
    queue: str = ""
    worker: str = ""
    owner: str = ""

    @property
    def has_no_index(self) -> bool:
        """Whether few jobs may match without an index that finds them."""
        return bool(self.kind or self.queue or self.worker)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """Jobs, newest first. `older` is the id before which the next page begins; None when there is none."""

    jobs: tuple[Job, ...]
    older: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLine:
    """A queue and what happens in it. `pending` was counted up to COUNT_LIMIT."""

    name: str
    paused_at: datetime | None
    ceiling: int | None
    pending: int
    running: int
    workers: int

    @property
    def has_more(self) -> bool:
        """Whether counting stopped at the limit."""
        return self.pending >= COUNT_LIMIT

    @property
    def is_stuck(self) -> bool:
        """Whether jobs wait that nobody who lives could take."""
        return self.pending > 0 and self.workers == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLine:
    """A worker, whether it was heard of lately, and the jobs that it runs."""

    worker: Worker
    is_alive: bool
    jobs: tuple[Job, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How the last jobs ended: of `ended` jobs (canceled ones left out) `succeeded`, after `mean_s` seconds each."""

    ended: int
    succeeded: int
    mean_s: float | None


def runs_the_farm(user: AnyUser) -> bool:
    """Whether `user` may pause queues, and make workers that serve everybody: staff with the permission."""
    return isinstance(user, User) and user.is_active and user.is_staff and user.has_perm("jobs.operate_job")


def may_manage(user: AnyUser, worker: Worker) -> bool:
    """Whether `user` may give this worker a new key or revoke it: its owner, or whoever runs the farm."""
    return (worker.owner_id is not None and worker.owner_id == user.pk) or runs_the_farm(user)


def page(*, viewer: int, filters: Filters, before: int | None = None) -> JobPage:
    """A page of jobs with ids below `before` (None: the newest), each with its owner, group and `excerpt`.

    A filter that no index serves looks through LOOK_BACK ids at most, so a rare kind costs a page without rows and
    not a read of the whole table; `older` then goes on where this page stopped looking.
    """
    top = _top(before) if filters.has_no_index else before
    if filters.has_no_index and top is None:
        return JobPage(jobs=(), older=None)
    floor = top - LOOK_BACK if filters.has_no_index and top is not None else 0
    where = _where(filters) & (Q() if top is None else Q(pk__lt=top)) & (Q(pk__gte=floor) if floor > 0 else Q())
    jobs = _newest(viewer, where, limit=PAGE + 1)
    if len(jobs) > PAGE:
        return JobPage(jobs=tuple(jobs[:PAGE]), older=jobs[PAGE - 1].pk)
    return JobPage(jobs=tuple(jobs), older=floor if floor > 0 else None)


def running(*, viewer: int, limit: int) -> list[Job]:
    """The jobs that run now, the newest first, `limit` at most."""
    return _newest(viewer, Q(status=Status.IN_PROGRESS), limit=limit)


def ended(*, viewer: int, limit: int = HEALTH_OF) -> list[Job]:
    """The jobs that ended last, `limit` at most; of a person's, the last ended of the newest."""
    if viewer == EVERYBODY:
        ends = Job.objects.filter(ended_at__isnull=False).order_by("-ended_at", "-pk")
        return list(_dressed(ends)[:limit])
    newest = _newest(viewer, Q(status__in=sorted(ENDED)), limit=limit)
    return sorted(newest, key=lambda job: (job.ended_at, job.pk), reverse=True)


def health(jobs: Sequence[Job]) -> Health:
    """What these ended jobs say about how well the farm does."""
    judged = [job for job in jobs if job.status != Status.CANCELED]
    times = [_ran_s(job) for job in judged if job.status == Status.SUCCESS]
    succeeded = len(times)
    return Health(ended=len(judged), succeeded=succeeded, mean_s=sum(times) / succeeded if succeeded else None)


def queue_lines(*, viewer: int, name: str = "") -> list[QueueLine]:
    """Every queue (or the one of this name), MOST_QUEUES at most, with the counts that concern the viewer."""
    rows = statements.load("jobs", "queue_lines").run(
        {
            "viewer": viewer, "name": name, "alive_s": settings.JOBFARM["WORKER_ALIVE_S"],
            "limit": COUNT_LIMIT, "queues": MOST_QUEUES,
        }
    )  # fmt: skip
    return [QueueLine(**row._asdict()) for row in rows]


def worker_lines(*, viewer: int, with_revoked: bool = False, limit: int = MOST_WORKERS) -> list[WorkerLine]:
    """The workers that were heard of last, `limit` at most, and what they run; a person's are those they own."""
    workers = Worker.objects.all() if viewer == EVERYBODY else Worker.objects.filter(owner_id=viewer)
    if not with_revoked:
        workers = workers.filter(revoked_at__isnull=True)
    order = (F("revoked_at").asc(nulls_first=True), F("last_seen_at").desc(nulls_last=True), "-pk")
    return _lines(workers.order_by(*order)[:limit])


def worker_line(worker_id: int) -> WorkerLine | None:
    """One worker, and what it runs."""
    return next(iter(_lines(Worker.objects.filter(pk=worker_id))), None)


def job(job_id: int) -> Job | None:
    """A job with its owner and group, whoever asks."""
    return Job.objects.select_related("owner", "group").filter(pk=job_id).first()


def job_with_body(job_id: int) -> Job | None:
    """A job with its payload and result, whoever asks."""
    return Job.objects.select_related("owner", "group", "body").filter(pk=job_id).first()


def retries(job_id: int) -> list[int]:
    """The jobs that try this one again, oldest first."""
    return list(Job.objects.filter(retry_of_id=job_id).order_by("pk").values_list("pk", flat=True)[:20])


def attempts(job_id: int, *, limit: int = 50) -> list[Attempt]:
    """The last attempts of a job that ended without success, newest first, `limit` at most."""
    return list(Attempt.objects.filter(job_id=job_id).order_by("-number")[:limit])


def share(job_id: int) -> Share | None:
    """The link that shows this job to strangers, if there is one."""
    return Share.objects.filter(job_id=job_id).first()


def is_shared(job_id: int, *, token: str) -> bool:
    """Whether this token opens this job."""
    return Share.objects.filter(job_id=job_id, token=token).exists()


def known_kinds() -> list[str]:
    """The names of all kinds, declared in code or made by people."""
    return sorted({*kinds.DECLARED, *Kind.objects.values_list("name", flat=True)})


def known_queues() -> list[str]:
    """The names of all queues."""
    return list(Queue.objects.order_by("name").values_list("name", flat=True))


def _top(before: int | None) -> int | None:
    """The id below which to look: `before`, but not beyond the newest job; None if there is no job."""
    newest = Job.objects.order_by("-pk").values_list("pk", flat=True).first()
    return None if newest is None else min(before or _BIGGEST_ID, newest + 1)


def _where(filters: Filters) -> Q:
    where = Q()
    for column, value in (
        ("status", filters.status), ("kind", filters.kind), ("queue", filters.queue), ("worker_name", filters.worker),
    ):  # fmt: skip
        where &= Q(**{column: value}) if value else Q()
    if filters.owner:
        owner = User.objects.filter(username=filters.owner).values_list("pk", flat=True).first()
        where &= Q(owner_id=-1 if owner is None else owner)  # nobody has -1
    return where


def _newest(viewer: int, where: Q, *, limit: int) -> list[Job]:
    if viewer == EVERYBODY:
        return list(_dressed(Job.objects.filter(where).order_by("-pk"))[:limit])
    ids = _ids_of_person(viewer, lambda jobs: jobs.filter(where).order_by("-pk").values_list("pk", flat=True)[:limit])
    return list(_dressed(Job.objects.filter(pk__in=ids).order_by("-pk"))[:limit])


def _ids_of_person(viewer: int, narrowed: Callable[[QuerySet[Job]], Any]) -> list[int]:
    """Ids from each of a person's sources, each through its own index: an OR between them would walk the whole table."""
    groups = User.groups.through.objects.filter(user_id=viewer).values_list("group_id", flat=True)
    own = narrowed(Job.objects.filter(owner_id=viewer))
    shared = [narrowed(Job.objects.filter(group_id=group)) for group in groups]
    return list(own.union(*shared, all=True)) if shared else list(own)


def _dressed(jobs: QuerySet[Job]) -> QuerySet[Job]:
    prompt = KeyTextTransform("prompt", "body__payload")
    return jobs.select_related("owner", "group").annotate(excerpt=Left(prompt, EXCERPT))


def _ran_s(job: Job) -> float:
    assert job.claimed_at is not None  # a success was claimed
    assert job.ended_at is not None
    return (job.ended_at - job.claimed_at).total_seconds()


def _lines(workers: QuerySet[Worker]) -> list[WorkerLine]:
    alive = Q(revoked_at__isnull=True, last_seen_at__gt=Now() - timedelta(seconds=settings.JOBFARM["WORKER_ALIVE_S"]))
    is_alive = ExpressionWrapper(alive, output_field=BooleanField())
    found = list(workers.select_related("owner").annotate(is_alive=is_alive))
    held = _held_by([worker.pk for worker in found])
    return [
        WorkerLine(worker=worker, is_alive=bool(worker.is_alive), jobs=tuple(held.get(worker.pk, ())))
        for worker in found
    ]


def _held_by(workers: Sequence[int]) -> dict[int, list[Job]]:
    jobs = Job.objects.filter(status=Status.IN_PROGRESS, worker_id__in=workers).order_by("worker_id", "pk")
    return {worker: list(theirs) for worker, theirs in groupby(jobs, key=lambda job: job.worker_id or 0)}
