"""Small words for tests about jobs: a worker, a job, time passing, and things done at the same moment."""

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast

from django.contrib.auth.models import Group, User
from django.db import connection, transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from jobs import operations
from jobs.errors import RowLocked
from jobs.models import Attempt, Job, Kind, Lane, Live, Outcome, Worker
from postgres import clock, connections, statements
from scheduling import operations as scheduling

_NARROW = "live outcome uniquekey attempt checkpoint input offspring origin outputchunk resultfile share stage"
OF_A_JOB = {"jobs_job": "id", **{f"jobs_{name}": "job_id" for name in _NARROW.split()}}  # tables, and what names it
# One statement: by the ORM they were thirteen, and a quarter of the time of tests that compare.
_EVERYTHING = " UNION ALL ".join(
    f"SELECT '{table}', row_to_json(found)::text FROM {table} AS found WHERE {column} = %(id)s"
    for table, column in OF_A_JOB.items()
)
S = TypeVar("S")
T = TypeVar("T")
PASSWORD = "correct horse battery"
_RECORD = (
    "kind",
    "queue",
    "owner",
    "owner_id",
    "group",
    "group_id",
    "requirement_id",
    "expires_at",
    "timeout_s",
)  # live rows follow


def user(name: str = "ada", *, groups: Iterable[Group] = (), **fields: Any) -> User:
    """A person with a usable account."""
    person = User.objects.create_user(username=name, password=PASSWORD, **fields)
    if members_of := list(groups):  # nearly nobody: to set none asks the database which there are
        person.groups.set(members_of)
    return person


def kind(name: str = "work", **fields: Any) -> Kind:
    """A kind made by a person, with a queue of the same name."""
    operations.create_kind(operations.Kind(name=name, **fields))
    return Kind.objects.get(pk=name)


def worker(name: str = "w1", *queues: str, steals: Iterable[str] = (), owner: User | None = None) -> Worker:
    """A worker that was heard of just now."""
    made, _ = operations.create_worker(name, queues=queues or ("work",), steals=list(steals), owner=owner)
    operations.seen([made.pk])
    made.refresh_from_db()
    return made


def stored_worker(worker: Worker) -> Worker:
    """The worker as stored now."""
    return Worker.objects.get(pk=worker.pk)


def submit(count: int, kind: str = "work", **options: Any) -> list[Job]:
    """Jobs with their number as payload."""
    new = [new_job(kind, {"n": n}, **options) for n in range(count)]
    return stored_jobs(operations.submit_many(new))


def claim_one(by: Worker) -> operations.ClaimedJob:
    """The one job that `by` gets now."""
    [claimed] = operations.claim(by)
    return claimed


def succeed(by: Worker, claimed: operations.ClaimedJob, result: Any = None) -> Any:
    """Hand in a success; the new status, or LeaseLost as a value."""
    return operations.finish(
        by, [operations.Finished(job_id=claimed.id, lease=claimed.lease, outcome="success", result=result)]
    )[0]


def fail(by: Worker, claimed: operations.ClaimedJob, error: str = "it broke", *, retryable: bool = True) -> Any:
    """Hand in a failure; the new status, or LeaseLost as a value."""
    return operations.finish(
        by,
        [
            operations.Finished(
                job_id=claimed.id, lease=claimed.lease, outcome="failed", error=error, retryable=retryable
            )
        ],
    )[0]


def status(job: Job | operations.ClaimedJob | int) -> str:
    """The job's status as stored now."""
    [found] = statuses([job if isinstance(job, int) else job.id])
    return found


def statuses(job_ids: Iterable[int] | None = None) -> list[str]:
    """How these jobs stand now (None: all), in the order of their ids."""
    jobs = Job.objects.all() if job_ids is None else Job.objects.filter(pk__in=list(job_ids))
    return [job.status for job in jobs.order_by("pk")]


def alter(jobs: Job | operations.ClaimedJob | QuerySet[Job], **columns: Any) -> int:
    """Write into rows of jobs what no operation would, on the record or where else they stand; how many there are."""
    ids = list(jobs.values_list("pk", flat=True)) if isinstance(jobs, QuerySet) else [jobs.id]
    changed = 0
    for model in (Job, Live, Outcome):
        names = {field.name for field in model._meta.fields} | {field.attname for field in model._meta.fields}
        theirs = {
            name: value for name, value in columns.items() if name in names and (name not in _RECORD or model is Job)
        }
        if theirs and (rows := model.objects.filter(pk__in=ids)).exists():
            changed = rows.update(**theirs)
    return changed


def hold(job: Job, worker: Worker) -> None:
    """Let this worker have the job, whatever stands in the way of a claim."""
    lease = {"lease_secret": uuid.uuid4(), "lease_expires_at": now() + timedelta(hours=1), "claimed_at": now()}
    alter(job, worker=worker, worker_name=worker.name, fence=1, **lease)


def end(jobs: Job | QuerySet[Job], status: str, **columns: Any) -> None:
    """End jobs that wait by hand, as no operation would."""
    ids = list(jobs.values_list("pk", flat=True)) if isinstance(jobs, QuerySet) else [jobs.pk]
    if columns:
        alter(Job.objects.filter(pk__in=ids), **columns)
    statements.load("jobs", "end_waiting").run({"ids": ids, "status": status})


def new_job(kind: str = "work", payload: Any = None, **options: Any) -> operations.NewJob:
    """A job to submit with whatever options, also with those that nobody may ask for."""
    return cast("operations.NewJob", {"kind": kind, "payload": payload, **options})


def stored_jobs(answers: Iterable[Any]) -> list[Job]:
    """The jobs of these answers to a bulk, in order; without those that have a twin."""
    ids = [answer for answer in answers if isinstance(answer, int)]
    rows = Job.objects.in_bulk(ids)
    return [rows[job_id] for job_id in ids]


def stored(job: Job | operations.ClaimedJob) -> Job:
    """The job as stored now."""
    return Job.objects.get(pk=job.id)


def history(job: Job | operations.ClaimedJob) -> list[tuple[int, str, str, str]]:
    """Of each attempt that is kept its claim number, how it ended, who ran it, and what went wrong."""
    rows = Attempt.objects.filter(job_id=job.id).order_by("number")
    return list(rows.values_list("number", "outcome", "worker_name", "error"))


def last_attempt_ended_at(job: Job | operations.ClaimedJob) -> datetime:
    """When the newest attempt that is kept ended."""
    last = Attempt.objects.filter(job_id=job.id).order_by("number").last()
    assert last is not None
    return last.ended_at


def make_due(job: Job | operations.ClaimedJob) -> None:
    """Let the backoff pass, and nothing else: the grace goes on."""
    alter(job, run_at=Now())


def avoid(jobs: Iterable[Job | operations.ClaimedJob], *workers: Worker, ago_s: float = 0.0) -> None:
    """Let these waiting jobs have been failed by these workers: their grace began so many seconds ago."""
    given: dict[str, Any] = {
        "ago_s": ago_s,
        "avoid": sorted(one.pk for one in workers),
        "ids": [job.id for job in jobs],
    }
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE jobs_live SET run_at = now() - make_interval(secs => %(ago_s)s) WHERE job_id = ANY (%(ids)s)", given
        )
        cursor.execute(  # the lane alone: where more is written the database looks for it
            "UPDATE jobs_live AS live SET lane_id = jobs_enter(live.queue, job.priority, live.owner_id, live.group_id,"
            " live.requirement_id, %(avoid)s, live.run_at) FROM jobs_job AS job"
            " WHERE live.job_id = ANY (%(ids)s) AND job.id = live.job_id",
            given,
        )


def retain(name: str = "jobs") -> int:
    """Delete all that is kept no longer; how many of this name."""
    return scheduling.retain().get(name, 0)


def age(jobs: Job | QuerySet[Job], seconds: float) -> None:
    """Let ended jobs have ended longer ago: only with their guard out of the way can that be written."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # of a test that is rolled back
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
        cursor.execute("ALTER TABLE jobs_outcome DISABLE TRIGGER USER")
        alter(jobs, ended_at=F("ended_at") - timedelta(seconds=seconds))
        cursor.execute("ALTER TABLE jobs_outcome ENABLE TRIGGER USER")


def forgive(job: Job | operations.ClaimedJob) -> None:
    """Let this waiting job be due now, for every worker."""
    avoid([job])


def avoided_by(job: Job | operations.ClaimedJob) -> list[int]:
    """The workers that leave this job to others, by its lane."""
    return list(Lane.objects.filter(pk=stored(job).lane_id or 0).values_list("avoid", flat=True).first() or ())


def pass_time(job: Job | operations.ClaimedJob, seconds: float) -> None:
    """Let time pass for one job: all its moments move into the past."""
    columns = ("run_at", "lease_expires_at", "deadline_at", "claimed_at")
    back = timedelta(seconds=seconds)
    Live.objects.filter(pk=job.id).update(**{name: F(name) - back for name in columns})
    Job.objects.filter(pk=job.id).update(created_at=F("created_at") - back, expires_at=F("expires_at") - back)


def expire_lease(job: Job | operations.ClaimedJob, *, is_confirmed: bool = True) -> None:
    """Let the lease of a running job run out, and nothing else: nobody has looked at it yet."""
    running = Live.objects.filter(pk=job.id, lease_secret__isnull=False)
    confirmed = {"confirmed_fence": F("fence")} if is_confirmed else {}
    running.update(lease_expires_at=Now() - timedelta(seconds=1), **confirmed)


def lose(job: Job | operations.ClaimedJob) -> None:
    """Let the lease of a running job run out, and the janitor notice."""
    expire_lease(job)
    assert operations.sweep().taken_back == 1


def time_out(job: Job | operations.ClaimedJob) -> None:
    """The same for a job that must not run twice: its end."""
    alter(job, retry_when_lost=False)
    lose(job)


def everything(job: Job | operations.ClaimedJob | int) -> list[tuple[str, str]]:
    """All that is stored about a job, in all tables: to compare before and after."""
    with connection.cursor() as cursor:
        cursor.execute(_EVERYTHING, {"id": job if isinstance(job, int) else job.id})
        return sorted(cursor.fetchall())


def until(check: Callable[[], T], *, within_s: float = 30, what: str = "it") -> T:
    """What `check` returns once that is true; AssertionError if it is not within the time."""
    deadline = time.monotonic() + within_s
    while not (answer := check()):
        assert time.monotonic() < deadline, f"{what} did not come within {within_s} s"
        time.sleep(0.01)
    return answer


def waiting_for_locks() -> int:
    """How many sessions wait for a lock at this moment."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")  # a transaction sees the first look again and again
        cursor.execute("""
            SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'
        """)
        [waiting] = cursor.fetchone()
        return int(waiting)


def at_once(*functions: Callable[[], T]) -> list[T]:
    """Call each function in a thread of its own, all released by one barrier; their answers in order.

    Each thread has its own connection, given back at the end. An exception is raised here; who is refused since a row
    is locked asks again, as clients do.
    """
    barrier = threading.Barrier(len(functions))

    def run(function: Callable[[], T]) -> T:
        with connections.released():
            barrier.wait(timeout=30)
            for _ in range(20):  # where processors are busy a neighbour's commit takes half a second
                with contextlib.suppress(RowLocked):
                    return function()
            return function()

    with ThreadPoolExecutor(len(functions)) as pool:
        return [future.result(timeout=120) for future in [pool.submit(run, function) for function in functions]]


def meanwhile(first: Callable[[], S], second: Callable[[], T]) -> tuple[S, T]:
    """Call the first in a transaction that commits once the second, in another session, waits for a lock or is over."""
    done, over = threading.Event(), threading.Event()

    def hold() -> S:
        with transaction.atomic():
            answer = first()
            done.set()
            until(lambda: bool(waiting_for_locks()) or over.is_set())
        return answer

    def follow() -> T:
        assert done.wait(30)
        try:
            return second()
        finally:
            over.set()

    calls: list[Callable[[], Any]] = [hold, follow]
    one, other = at_once(*calls)
    return one, other


def ended(how: str, **options: Any) -> Job:
    """A job of the kind "work" that ran and ended with this status."""
    [job] = submit(1, **options)
    runner = worker("runner")
    claimed = claim_one(runner)
    assert claimed.id == job.pk
    match how:
        case "success":
            succeed(runner, claimed, {"made": "in time"})
        case "failed":
            fail(runner, claimed, retryable=False)
        case "canceled":
            operations.cancel(job.pk, by=None)
        case "timed_out":
            time_out(claimed)
    job.refresh_from_db()
    assert job.status == how
    return job


def now() -> datetime:
    """The database's now."""
    return clock.now()


@contextlib.contextmanager
def plans_without(*nodes: str) -> Iterator[None]:
    """The plans that this thread's connection makes in the block do without these (`enable_...`) where they can."""
    with connection.cursor() as cursor:
        for node in nodes:
            cursor.execute(f"SET enable_{node} = off")
        cursor.execute("DISCARD PLANS")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            for node in nodes:
                cursor.execute(f"RESET enable_{node}")
            cursor.execute("DISCARD PLANS")


@contextlib.contextmanager
def rolled_back() -> Iterator[None]:
    """A transaction (or a savepoint in one) whose block ends in an error, as code of somebody else may."""
    with contextlib.suppress(ZeroDivisionError), transaction.atomic():
        yield
        raise ZeroDivisionError


@contextlib.contextmanager
def rescanning() -> Iterator[None]:
    """The planner joins by going through one side anew for each row of the other, where it may: what a LIMIT holds back
    there comes with the next turn. Plans of this connection are made anew, before and after."""
    wanted = ("hashagg", "hashjoin", "mergejoin", "sort", "material", "memoize")
    with connection.cursor() as cursor:
        for name in wanted:
            cursor.execute(f"SET enable_{name} = off")
        cursor.execute("DISCARD PLANS")
        try:
            yield
        finally:
            for name in wanted:
                cursor.execute(f"RESET enable_{name}")
            cursor.execute("DISCARD PLANS")


def setting(name: str) -> str:
    """What this transaction goes by."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting(%s)", [name])
        return str(cursor.fetchone()[0])
