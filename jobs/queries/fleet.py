"""Reads of queues, workers and processes. `viewer` is as in `pages`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Count, F, Q, QuerySet, Window
from django.db.models.functions import Now, RowNumber

from jobs.domain.labels import LOADED
from jobs.domain.presence import Part, Process as Known, with_replaced
from jobs.domain.workers import Presence, StuckSlot, presence
from jobs.errors import UnknownWorker, WorkerNotYours
from jobs.models import Job, Process, Queue, Worker, WorkerFacts
from jobs.models.workers import was_seen_lately
from jobs.queries import requirements
from jobs.queries.pages import EVERYBODY
from jobs.queries.reads import AnyUser, is_operator, runs_farm
from jobs.queries.workers import Rates, rates, stuck_slots
from observing.logs import LATEST_ERRORS
from postgres import clock, statements

MOST_QUEUES = 200
MOST_MEASURED = 10_000  # queues of the metrics and the alerts, which nobody reads one by one
COUNTED = 10_000  # waiting jobs of a queue, jobs of a status; the pages say "10,000+" beyond it
SHARES_LISTED = 20
SHARE_COUNTED = 100
MOST_WORKERS = 200
MOST_LABELLED = 1000  # workers whose labels are offered as filters
LISTED = 200  # those heard of last: a process that dies at each start must not make a page of itself


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """A queue and what happens in it. `pending` was counted up to COUNTED; `has_more`: there are more."""

    name: str
    paused_at: datetime | None
    ceiling: int | None
    pending: int
    running: int
    workers: int
    of_key: int | None = None
    fair: str = "off"
    ages_after: int | None = None
    has_more: bool = False

    @property
    def pending_text(self) -> str:
        return f"{self.pending:,}{'+' if self.has_more else ''}"

    @property
    def is_full(self) -> bool:
        """Whether the ceiling keeps waiting jobs from starting."""
        return self.ceiling is not None and self.running >= self.ceiling and self.pending > 0

    @property
    def is_stuck(self) -> bool:
        """Whether jobs wait that nobody who lives could take."""
        return self.pending > 0 and self.workers == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareRow:
    """Somebody's share of a fair queue ("": that of jobs of nobody's): what runs of it, and what waits and is due,
    counted up to SHARE_COUNTED. `others`: how many shares there are beside those of the list."""

    name: str
    is_group: bool
    weight: int
    running: int
    waiting: int
    others: int

    @property
    def waiting_text(self) -> str:
        return f"{self.waiting:,}{'+' if self.waiting == SHARE_COUNTED else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """A worker, whether it is there, what it reported about itself, how many jobs it holds (`held`), the first of them,
    which of its slots take none, and how it did lately."""

    worker: Worker
    presence: Presence
    facts: WorkerFacts | None
    held: int
    jobs: tuple[Job, ...]
    stuck: tuple[StuckSlot, ...] = ()
    rates: Rates = Rates()  # noqa: RUF009 (it is frozen)

    @property
    def is_alive(self) -> bool:
        """Whether it was seen lately, and its key opens something. It may be drained."""
        return self.presence is Presence.LIVE

    @property
    def held_besides(self) -> int:
        """How many jobs it runs that are not among `jobs`."""
        return self.held - len(self.jobs)

    @property
    def slots_text(self) -> str:
        """How many of its jobs at a time it runs: "3 of 4". Leases beyond lie ready, or are of a process that ended."""
        most = self.facts and self.facts.concurrency
        if not most or not self.is_alive:
            return ""
        more = self.held - most
        beyond = f", and {more:,} more lease{'s' * (more > 1)}" if more > 0 else ""
        return f"{min(self.held, most):,} of {most:,}{beyond}"

    @property
    def labels(self) -> dict[str, str]:
        """Its labels that count, but for the models that it has loaded."""
        return dict(label.split("=", 1) for label in labels_of(self.worker))

    @property
    def is_drained(self) -> bool:
        return self.worker.drained_at is not None and self.worker.revoked_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """A live worker as the members of a group may see it: whose it is (None: the farm's own), not what it runs."""

    name: str
    owner: str | None
    is_busy: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCounts:
    """How many workers there are whose keys open something, how many of them are live, and of those drained."""

    workers: int
    alive: int
    drained: int


def may_manage(user: AnyUser, worker: Worker) -> bool:
    """Whether `user` may give this worker a new key or revoke it: its owner, or whoever runs the farm."""
    return (worker.owner_id is not None and worker.owner_id == user.pk) or runs_farm(user)


def shares(queue: str) -> list[ShareRow]:
    """Who has a share of this queue, those that run the most of it first, SHARES_LISTED at most; none if it is not a
    fair one."""
    params = {"queue": queue, "limit": SHARES_LISTED, "most": SHARE_COUNTED}
    return [ShareRow(**row._asdict()) for row in statements.load("jobs", "shares").run(params)]


def queue_rows(*, viewer: int, name: str = "") -> list[QueueRow]:
    """Every queue (or the one of this name), MOST_QUEUES at most, with the counts that concern the viewer."""
    rows = statements.load("jobs", "queue_rows").run(
        {
            "viewer": viewer, "name": name, "alive_s": settings.JOBFARM["WORKER_ALIVE_S"],
            "limit": COUNTED + 1, "queues": MOST_QUEUES,
        }
    )  # fmt: skip
    counted = {"pending": COUNTED, "has_more": True}
    return [QueueRow(**row._asdict() | (counted if row.pending > COUNTED else {})) for row in rows]


def worker_rows(
    *,
    viewer: int,
    queue: str = "",
    with_revoked: bool = False,
    with_rates: bool = False,
    limit: int = MOST_WORKERS,
    jobs_each: int | None = None,
) -> list[WorkerRow]:
    """The workers seen last, `limit` at most, and what they run; a person's are those they own. `queue`: only those
    whose key allows it. `with_rates`: also how each did lately. `jobs_each`: only so many of the
    jobs of each."""
    workers = Worker.objects.all() if viewer == EVERYBODY else Worker.objects.filter(owner_id=viewer)
    if not with_revoked:
        workers = workers.filter(revoked_at__isnull=True)
    if queue:
        workers = workers.filter(_takes(queue))
    order = (F("revoked_at").asc(nulls_first=True), F("last_seen_at").desc(nulls_last=True), "-pk")
    rows = _worker_rows(workers.order_by(*order)[:limit], jobs_each=jobs_each)
    if not rows or not with_rates:
        return rows
    lately = rates([row.worker.pk for row in rows])
    return [replace(row, rates=lately.get(row.worker.pk, row.rates)) for row in rows]


def worker_row(worker_id: int, *, jobs_each: int | None = None) -> WorkerRow | None:
    """One worker, and what it runs; of it `jobs_each` jobs at most."""
    return next(iter(_worker_rows(Worker.objects.filter(pk=worker_id), jobs_each=jobs_each)), None)


def visible_worker(worker_id: int, *, user: AnyUser) -> WorkerRow:
    """One worker that `user` may look at, with its jobs: its owner, or an operator. Raises UnknownWorker, and
    WorkerNotYours where the administration lists it for `user`."""
    row = worker_row(worker_id)
    if row is None or not (row.worker.owner_id == user.pk or is_operator(user)):
        is_listed = row is not None and isinstance(user, User) and user.is_staff and user.has_perm("jobs.view_worker")
        raise WorkerNotYours if is_listed else UnknownWorker
    return row


def manageable_worker(worker_id: int, *, user: AnyUser, by_staff: bool = False) -> WorkerRow:
    """One worker that `user` may change; `by_staff`: in what its owner may not, as its labels, which win over what the
    owner has it announce. Raises UnknownWorker, and WorkerNotYours for one that `user` may look at."""
    row = visible_worker(worker_id, user=user)
    if not (runs_farm(user) if by_staff else may_manage(user, row.worker)):
        raise WorkerNotYours
    return row


def workers_for(queue: str, *, group_id: int) -> list[Serving]:
    """The live workers that take jobs of this group from this queue: those of the farm, then the members', by name."""
    members = User.groups.through.objects.filter(group_id=group_id).values("user_id")
    serves = Q(owner=None) | Q(owner__in=members, owner__is_active=True)
    workers = Worker.objects.live().filter(_takes(queue) & serves, drained_at=None)
    workers = workers.select_related("owner").order_by(F("owner").asc(nulls_first=True), "name", "pk")[:MOST_WORKERS]
    busy = set(_held_by([worker.pk for worker in workers]))
    return [
        Serving(
            name=worker.name, owner=worker.owner.get_username() if worker.owner else None, is_busy=worker.pk in busy
        )
        for worker in workers
    ]


def worker_counts(*, viewer: int) -> WorkerCounts:
    workers = Worker.objects.filter(Q(owner=None) | Q(owner__is_active=True), revoked_at=None)
    if viewer != EVERYBODY:
        workers = workers.filter(owner_id=viewer)
    live = {
        name: Count(column, filter=was_seen_lately()) for name, column in (("alive", "pk"), ("drained", "drained_at"))
    }
    return WorkerCounts(**workers.aggregate(workers=Count("pk"), **live))


def labels_of(worker: Worker) -> list[str]:
    """The labels of this worker that count, as "vram=24", but for the models that it has loaded."""
    values = requirements.values_of(worker)
    return [f"{key}={str(*values[key])}" for key in sorted(values) if key != LOADED]


def known_labels() -> list[str]:
    """The labels that workers have whose keys open something, LISTED at most."""
    workers = Worker.objects.select_related("facts").filter(revoked_at=None)[:MOST_LABELLED]
    return sorted({label for worker in workers for label in labels_of(worker)})[:LISTED]


def with_label(workers: QuerySet[Worker], label: str) -> QuerySet[Worker]:
    """Those of these workers that have this label, such as "vram=24", whoever set it."""
    key, _, value = label.partition("=")
    by_staff = Q(labels__contains={key: value})
    return workers.filter(by_staff | Q(facts__labels__contains={key: value}) & ~Q(labels__has_key=key))


def known_queues() -> list[str]:
    return list(Queue.objects.order_by("name").values_list("name", flat=True))


def report_process(process: UUID, *, part: Part, host: str, pid: int, beat_s: float = 0.0, gap_s: float = 0.0) -> None:
    """This process is there, and logged such errors lately; with `beat_s`, also reachable for workers."""
    params = {"part": part, "host": host, "pid": pid, "beat_s": beat_s, "gap_s": gap_s, "serves_workers": beat_s > 0}
    statements.load("jobs", "report").run({"id": process, "errors": LATEST_ERRORS.sentences(), **params})


def end_process(process: UUID) -> None:
    Process.objects.filter(pk=process, ended_at=None).update(ended_at=Now(), seen_at=Now())


def processes() -> list[Known]:
    """The processes that were heard of within a day, those heard of last first."""
    rows = Process.objects.annotate(age=Now() - F("started_at"), silence=Now() - F("seen_at"))
    return with_replaced(
        [
            Known(
                **{name: getattr(row, name) for name in ("part", "host", "pid", "started_at")},
                age_s=row.age.total_seconds(),
                silent_s=row.silence.total_seconds(),
                has_ended=row.ended_at is not None,
                errors=tuple(row.errors),
            )
            for row in rows.order_by("-seen_at")[:LISTED]
        ]
    )


def _takes(queue: str) -> Q:
    return Q(queues__contains=[queue]) | Q(steals__overlap=[queue, "*"])


def _worker_rows(workers: QuerySet[Worker], *, jobs_each: int | None) -> list[WorkerRow]:
    rows = list(workers.select_related("owner", "drained_by", "facts").annotate(clock_now=Now()))
    held = _held_by([worker.pk for worker in rows], each=jobs_each)
    there = {worker.pk: presence_of(worker, now=worker.clock_now) for worker in rows}
    stuck = stuck_slots([worker for worker in rows if there[worker.pk] is Presence.LIVE])
    return [
        WorkerRow(
            worker=worker,
            presence=there[worker.pk],
            facts=getattr(worker, "facts", None),
            held=max((getattr(job, "held", len(jobs)) for job in jobs), default=0),
            jobs=tuple(jobs),
            stuck=stuck.get(worker.pk, ()),
        )
        for worker in rows
        for jobs in [held.get(worker.pk, [])]
    ]


def presence_of(worker: Worker, *, now: datetime | None = None) -> Presence:
    """Whether this worker is there, by the database's clock."""
    return presence(
        revoked_at=worker.revoked_at,
        last_seen_at=worker.last_seen_at,
        now=now or clock.now(),
        alive_s=settings.JOBFARM["WORKER_ALIVE_S"],
    )


def _held_by(workers: Sequence[int], *, each: int | None = None) -> dict[int, list[Job]]:
    """The jobs that each of these workers holds; with `each`, so many of them, and in `held` how many it holds."""
    jobs = Job.objects.running().filter(live__worker_id__in=workers).order_by("live__worker_id", "pk")
    if each is not None:
        place = Window(RowNumber(), partition_by="live__worker_id", order_by="pk")
        held = Window(Count("pk"), partition_by="live__worker_id")
        jobs = jobs.annotate(place=place, held=held).filter(place__lte=each)
    return {worker: list(theirs) for worker, theirs in groupby(jobs, key=lambda job: job.worker_id or 0)}
