"""Reads of the pages: jobs, for one viewer or (EVERYBODY) for operators.

`viewer` is the id of a person, who sees their own and their groups' jobs, or EVERYBODY for all there are. It
is an argument and not a user, because live queries are read once for all who watch with the same arguments.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Left

from jobs import kinds
from jobs.domain.states import ENDED, Status
from jobs.models import Attempt, Job, Kind, ResultFile, Share

EVERYBODY = 0
PAGE = 50  # jobs in a list
LOOK_BACK = 200_000  # ids that one page of a filtered list looks through at most
HEALTH_OF = 20  # ended jobs that the health line speaks of
MOST_FILES = 200
EXCERPT = 120  # characters of a prompt in a list
_BIGGEST_ID = 2**63 - 1
_COLUMNS = {"status": "status", "kind": "kind", "queue": "queue", "worker": "worker_name"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What a list of jobs is narrowed to; an empty text means any. `owner` and `worker` are names."""

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
class Health:
    """How jobs ended: of `ended` (canceled ones left out) `succeeded`, after `mean_s` seconds on average."""

    ended: int
    succeeded: int
    mean_s: float | None


def page(*, viewer: int, filters: Filters, before: int | None = None) -> JobPage:
    """A page of jobs with ids below `before` (None: the newest), each with its owner, group and `excerpt`.

    A filter that no index serves looks through LOOK_BACK ids at most, so a rare kind costs a page without
    rows and not a read of the whole table; `older` then goes on where this page stopped looking.
    """
    top, floor = _window(before) if filters.has_no_index else (before or _BIGGEST_ID, 0)
    jobs = _newest(viewer, _where(filters) & Q(pk__lt=top, pk__gte=floor), limit=PAGE + 1)
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
    mean_s = sum(times) / succeeded if succeeded else None
    return Health(ended=len(judged), succeeded=succeeded, mean_s=mean_s)


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


def latest_files(job_id: int) -> list[ResultFile]:
    """The files of a job by name; of several attempts that handed in the same name, the latest one's."""
    files = ResultFile.objects.filter(job_id=job_id).order_by("name", "-attempt").distinct("name")
    return list(files[:MOST_FILES])


def file(job_id: int, *, name: str, attempt: int | None) -> ResultFile | None:
    """The file of this name that this attempt handed in; without an attempt, the latest that did."""
    if "\x00" in name:
        return None
    files = ResultFile.objects.filter(job_id=job_id, name=name)
    return (files if attempt is None else files.filter(attempt=attempt)).order_by("-attempt").first()


def share(job_id: int) -> Share | None:
    """The link that shows this job to strangers, if there is one."""
    return Share.objects.filter(job_id=job_id).first()


def is_shared(job_id: int, *, token: str) -> bool:
    """Whether this token opens this job."""
    return Share.objects.filter(job_id=job_id, token=token).exists()


def known_kinds() -> list[str]:
    """The names of all kinds, declared in code or made by people."""
    return sorted({*kinds.DECLARED, *Kind.objects.values_list("name", flat=True)})


def _window(before: int | None) -> tuple[int, int]:
    """The ids to look through: below the first number, from the second on."""
    newest = Job.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    top = min(before or _BIGGEST_ID, newest + 1)
    return top, max(top - LOOK_BACK, 0)


def _where(filters: Filters) -> Q:
    where = Q()
    for name, column in _COLUMNS.items():
        value = getattr(filters, name)
        where &= Q(**{column: value}) if value else Q()
    if filters.owner:
        owner = User.objects.filter(username=filters.owner).values_list("pk", flat=True).first()
        where &= Q(owner_id=-1 if owner is None else owner)  # nobody has -1
    return where


def _newest(viewer: int, where: Q, *, limit: int) -> list[Job]:
    if viewer == EVERYBODY:
        return list(_dressed(Job.objects.filter(where).order_by("-pk"))[:limit])
    ids = _ids_of_person(viewer, where, limit=limit)
    return list(_dressed(Job.objects.filter(pk__in=ids).order_by("-pk"))[:limit])


# An OR between owner and groups would walk down the table until it has found enough; one arm for each is read
# through its own index.
def _ids_of_person(viewer: int, where: Q, *, limit: int) -> list[int]:
    groups = User.groups.through.objects.filter(user_id=viewer).values_list("group_id", flat=True)
    sources = [Q(owner_id=viewer), *(Q(group_id=group) for group in groups)]
    arms = [
        Job.objects.filter(source & where).order_by("-pk").values_list("pk", flat=True) for source in sources
    ]
    own, *shared = [arm[:limit] for arm in arms]
    return list(own.union(*shared, all=True)) if shared else list(own)


def _dressed(jobs: QuerySet[Job]) -> QuerySet[Job]:
    prompt = KeyTextTransform("prompt", "body__payload")
    return jobs.select_related("owner", "group").annotate(excerpt=Left(prompt, EXCERPT))


def _ran_s(job: Job) -> float:
    assert job.claimed_at is not None  # a success was claimed
    assert job.ended_at is not None
    return (job.ended_at - job.claimed_at).total_seconds()
