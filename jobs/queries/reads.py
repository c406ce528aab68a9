"""Reads: who sees what, and what the pages, the API and the notifier need."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser, User
from django.db.models import F, Min, Q, QuerySet
from django.db.models.functions import Now

from core.refusal import existing
from jobs import models, registry
from jobs.domain import labels
from jobs.domain.leases import Lease
from jobs.domain.reasons import Reason, expired, explain
from jobs.domain.states import Status
from jobs.domain.why_facts import NAMED, Facts, Named, Turn, Unserved
from jobs.errors import NotAllowed, NotFound
from jobs.queries import moves, requirements
from postgres import arrays, statements

AnyUser = User | AnonymousUser | AbstractBaseUser
BIGGEST_ID = 2**63 - 1
LISTED = 200  # workers that lack a label, of which the nearest is named
AHEAD_LIMIT = 1000  # jobs ahead of one that waits; `why` says "1,000 or more" beyond it


@dataclass(frozen=True, slots=True, kw_only=True)
class Interest:
    """What somebody waits for: jobs of these queues; of everybody (`owner_id` None) or of a member and their groups;
    and of the requirements that its labels satisfy."""

    queues: tuple[str, ...]
    owner_id: int | None = None
    satisfies: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimable:
    """How many jobs could be claimed now, up to what was requested; seconds until the next becomes due, if soon."""

    jobs: int
    next_due_in_s: float | None


def is_operator(user: AnyUser) -> bool:
    """Whether `user` sees all jobs: staff who may view jobs."""
    return isinstance(user, User) and user.is_active and user.is_staff and user.has_perm("jobs.view_job")


def may_operate(user: AnyUser, job: models.Job) -> bool:
    """Whether `user` may cancel, retry and share this job: its owner, or whoever runs the farm."""
    return isinstance(user, User) and user.is_active and (job.owner_id == user.pk or runs_farm(user))


def runs_farm(user: AnyUser) -> bool:
    """Whether `user` may operate the jobs of everybody, pause queues, and make workers that serve everybody: staff with
    the permission."""
    return isinstance(user, User) and user.is_active and user.is_staff and user.has_perm("jobs.operate_job")


def operable(job_id: int, *, by: User | None, lock: bool = False) -> models.Job:
    """The job, locked if asked, for `by` to change (None: the system itself). Raises NotFound, also for one that `by`
    may not see, and NotAllowed for one that `by` may only look at."""
    if not 0 < job_id <= BIGGEST_ID:
        raise NotFound
    if lock:
        lock_living([job_id])
    visible = models.Job.objects.all() if by is None else visible_to(by)
    job = existing(visible.filter(pk=job_id).whole().first(), NotFound())
    if by is not None and not may_operate(by, job):
        raise NotAllowed
    return job


def lock_living(job_ids: Iterable[int]) -> list[int]:
    """Lock those of these jobs that have not ended, in the order of their ids; which they are. Who reads them
    afterwards sees them as they stay until the transaction ends."""
    rows = models.Live.objects.select_for_update().filter(pk__in=list(job_ids)).order_by("pk")
    return list(rows.values_list("pk", flat=True))


def has_right(user: User, right: str) -> bool:
    """Whether `user` was given this right by its name ("jobs.choose_queue"), or runs the farm and needs none."""
    return user.is_active and (runs_farm(user) or user.has_perm(right))


def visible_to(user: AnyUser) -> models.JobQuerySet:
    """The jobs that `user` may look at: their own, those of their groups; all of them for operators."""
    if is_operator(user):
        return models.Job.objects.all()
    if not isinstance(user, User) or not user.is_active:
        return models.Job.objects.none()
    return models.Job.objects.filter(Q(owner=user) | Q(group__in=user.groups.values("pk")))


def links() -> QuerySet[models.Share]:
    """Share links that show their job: those of people who may not log in any more do not. The site's own has no
    maker."""
    return models.Share.objects.filter(Q(created_by=None) | Q(created_by__is_active=True))


def shared(token: str) -> models.Job | None:
    """The job that a share link shows, or None."""
    return models.Job.objects.filter(share__in=links().filter(token=token)).whole().first()


def why_not_running(job_id: int) -> list[Reason]:
    """Why this job does not run, most important first; empty if there is no such job."""
    rows = statements.load("jobs", "why_not_running").run(
        {"job": job_id, "limit": AHEAD_LIMIT, "grace_s": settings.JOBFARM["EXCLUSION_S"], **moves.taking()}
    )
    return [reason for row in rows for reason in explain(_facts(row, job_id=job_id, lacking=_lacking(row)))]


def waits_for(jobs: Iterable[models.Job]) -> dict[int, int]:
    """Of those of these jobs that wait for another to end, which has their unique_key or which they come after: which
    that is."""
    behind = [job.pk for job in jobs if job.is_behind]
    if not behind:
        return {}
    rows = models.UniqueKey.objects.filter(follower_id__in=behind).values_list("follower_id", "job_id")
    edges = models.Edge.objects.filter(open_of__in=behind).order_by("-after_id").values_list("job_id", "after_id")
    return dict(rows) | dict(edges)


def output(job_id: int, *, attempt: int, after: int = -1, limit: int = 10_000) -> list[models.OutputChunk]:
    """The pieces of an attempt's output whose number is greater than `after`, in order, `limit` at most."""
    chunks = models.OutputChunk.objects.filter(job_id=job_id, attempt=attempt, seq__gt=after)
    return list(chunks.order_by("seq")[:limit])


def output_page(job_id: int, *, attempt: int, after: int, most: int, characters: int) -> list[models.OutputChunk]:
    """The same up to the piece that makes it so many characters. Read in parts that grow: a piece may be a megabyte,
    and the rest of the output is not read once more for each page."""
    chunks: list[models.OutputChunk] = []
    part = 16
    while most > 0 and characters > 0:
        read = output(job_id, attempt=attempt, after=after, limit=min(part, most))
        for chunk in read:
            chunks.append(chunk)
            characters -= len(chunk.text)
            if characters <= 0:
                return chunks
        if len(read) < min(part, most):
            break
        most, part, after = most - len(read), 8 * part, read[-1].seq
    return chunks


def output_text(job_id: int, *, attempt: int) -> str:
    """All that an attempt wrote, in one text."""
    chunks = models.OutputChunk.objects.filter(job_id=job_id, attempt=attempt).order_by("seq")
    return "".join(chunks.values_list("text", flat=True))


def statuses(job_ids: Iterable[int]) -> dict[int, Status]:
    """How each of these jobs stands, without those that are deleted."""
    return {job.pk: Status(job.status) for job in models.Job.objects.filter(pk__in=job_ids)}


def count_ended(groups: Mapping[int, Sequence[int]]) -> dict[int, tuple[int, int]]:
    """Of each group of jobs, by its key, how many ended in success and how many otherwise, deleted ones included."""
    pairs = [(key, job_id) for key, job_ids in groups.items() for job_id in job_ids]
    params = {"key": [key for key, _ in pairs], "id": [job_id for _, job_id in pairs]}
    rows = statements.load("jobs", "count_ended").run(params)
    return {row.key: (row.succeeded, row.failed) for row in rows}


def ended(job_ids: Sequence[int]) -> dict[int, statements.Row]:
    """How those of these jobs ended that have, by id: rows of `id status fence result error`, the result as JSON."""
    return {row.id: row for row in statements.load("jobs", "ended_jobs").run({"ids": list(job_ids)})}


def locked(job_ids: Sequence[int]) -> list[models.Job]:
    """These jobs with payload and result, locked in the order of their ids."""
    lock_living(job_ids)
    return list(models.Job.objects.whole().filter(pk__in=job_ids).order_by("pk"))


def event_facts(job_ids: Sequence[int], *, most_bytes: int) -> list[statements.Row]:
    """What events say of these jobs (sql/event_facts.sql), in order of id."""
    return statements.load("jobs", "event_facts").run({"ids": list(job_ids), "most": most_bytes})


def last_attempts(job_ids: Sequence[int]) -> dict[int, models.Attempt]:
    """Of each of these jobs the newest attempt that ended without success."""
    newest = models.Attempt.objects.filter(job_id__in=job_ids).order_by("job_id", "-number").distinct("job_id")
    return {attempt.job_id: attempt for attempt in newest}


def attempts(job_id: int) -> list[models.Attempt]:
    """The attempts of a job that ended without success, the first one first."""
    return list(models.Attempt.objects.filter(job_id=job_id).order_by("number"))


def errors(jobs: Sequence[models.Job]) -> dict[int, str]:
    """For each of these jobs that failed once, or ended since nobody began it in time: what went wrong last."""
    last = {job_id: attempt.error for job_id, attempt in last_attempts([job.pk for job in jobs]).items()}
    return last | {job.pk: expired(job.expires_at) for job in jobs if was_never_begun(job)}


def was_never_begun(job: Any) -> bool:
    """Whether this job ended because no worker had begun it by its `expires_at`."""
    return bool(job.status == Status.TIMED_OUT and job.confirmed_fence == 0)


def files(job_ids: Sequence[int]) -> dict[int, list[models.ResultFile]]:
    """The files of each of these jobs, of all its attempts, by name."""
    by_job: dict[int, list[models.ResultFile]] = {job_id: [] for job_id in job_ids}
    for file in models.ResultFile.objects.filter(job_id__in=job_ids).order_by("job_id", "attempt", "name"):
        by_job[file.job_id].append(file)
    return by_job


def claimable(interests: Sequence[tuple[Interest, int]], *, horizon_s: float) -> list[Claimable]:
    """For each (interest, how many at most): what could be claimed now, and when more is due within the horizon."""
    rows = statements.load("jobs", "available").run(
        {
            "queues": [",".join(interest.queues) for interest, _ in interests],
            "owner": [interest.owner_id for interest, _ in interests],
            "wanted": [wanted for _, wanted in interests],
            "satisfies": [arrays.plain(interest.satisfies) for interest, _ in interests],
            "horizon_s": horizon_s,
            **moves.taking(),
        }
    )
    return [Claimable(jobs=row.jobs, next_due_in_s=row.next_due_in_s) for row in rows]


def stopped(leases: Sequence[tuple[int, Lease]]) -> list[int]:
    """Of these (job id, lease) pairs, the jobs that the lease no longer holds."""
    running = models.Live.objects.filter(pk__in=[job_id for job_id, _ in leases]).exclude(lease_secret=None)
    fences = dict(running.values_list("pk", "fence"))
    return [job_id for job_id, lease in leases if fences.get(job_id) != lease.fence]


def waiting_queues(queue: str = "") -> list[statements.Row]:
    """Queues in which a due job waits, or this one whatever waits there: rows of `name`, `paused`, `workers` (live ones
    that serve it), `served` (there is one), `out_of_scope` (there is one, and a due job waits that none of them may
    take), `lacking` (there is one, and this is required of labels by a due job, and none of them has it; else null)."""
    return statements.load("jobs", "unserved").run({"alive_s": settings.JOBFARM["WORKER_ALIVE_S"], "queue": queue})


def unserved(queue: statements.Row) -> Unserved:
    """What is said of one of `waiting_queues` that is not served."""
    drained = tuple(map(Named, queue.drained_ids, queue.drained))
    return Unserved(queue=queue.name, drained=drained, last_worker=queue.last_worker, last_seen_at=queue.last_seen_at)


def unconfirmed(*, most: int) -> list[tuple[int, str]]:
    """Living jobs of which no worker ever named the last two leases or more, `most` at most, the oldest first: the id
    and kind of each."""
    silent = models.Live.objects.filter(unconfirmed__gte=2, confirmed_fence__lt=F("fence"))
    return list(silent.order_by("pk").values_list("pk", "kind")[:most])


def broken_jobs(*, most: int) -> list[tuple[int, str]]:
    """Jobs whose rows say what cannot be, `most` at most: the id of each, and what is wrong with it. Reads the whole
    table: a second for some hundred thousand jobs."""
    return [(row.id, row.what) for row in statements.load("jobs", "broken_jobs").run({"limit": most})]


def overdue_s() -> float:
    """By how many seconds the longest overdue running job is past its lease; 0 if none is, and while the farm's own
    absence keeps leases from running out (`lock_overdue`). A janitor keeps it small."""
    away = moves.absence()
    gap, grace = timedelta(seconds=away["gap_s"]), timedelta(seconds=away["grace_s"])
    if models.Reachability.objects.filter(Q(until__lt=Now() - gap) | Q(since__gt=Now() - grace)).exists():
        return 0.0
    oldest = models.Live.objects.exclude(lease_secret=None).aggregate(late=Now() - Min("lease_expires_at"))["late"]
    return max(oldest.total_seconds(), 0.0) if oldest else 0.0


def next_wake(*, but_for: Sequence[int] = ()) -> statements.Row:
    """`seconds` until a lease, a run or a waiting job (but these) runs out, None if nothing is in sight; and
    `outgrown`, the tables that PostgreSQL has not counted since they were less than half as large."""
    [row] = statements.load("jobs", "next_wake").run({"but_for": list(but_for), **moves.absence()})
    return row


def _lacking(row: statements.Row) -> dict[str, labels.Values]:
    """The labels of the workers that could take the job if they had others, LISTED at most; none where others can."""
    if row.workers or not row.lacking:
        return {}
    workers = models.Worker.objects.select_related("facts").filter(pk__in=row.lacking[:LISTED])
    return {worker.name: requirements.values_of(worker) for worker in workers}


def _turn(job_id: int) -> Turn | None:
    """When it is this job's turn in its fair queue; None if it does not wait there, or waits to be sorted."""
    for row in statements.load("jobs", "turn").run({"job": job_id, "limit": AHEAD_LIMIT, "named": NAMED}):
        return Turn(**row._asdict())
    return None


def _facts(row: statements.Row, *, job_id: int, lacking: Mapping[str, labels.Values]) -> Facts:
    known = row._asdict()
    drained_ids = known.pop("drained_ids")
    is_fair = known.pop("fair") not in {None, models.Fair.OFF}
    is_held = known.pop("is_metered") and row.status == Status.PENDING and row.due_in_s > 0
    renamed = {
        "lacking": lacking,
        "status": Status(row.status),
        "hold": registry.hold(job_id, is_metered=is_held),
        "limit": known.pop("limit_name"),
        "head_start_in_s": row.head_start_in_s or 0.0,
        "drained": tuple(map(Named, drained_ids, row.drained)),
        "turn": _turn(job_id) if is_fair else None,
        "ahead_limit": AHEAD_LIMIT,
    }
    return Facts(**known | renamed)
