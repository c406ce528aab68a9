"""Small words for tests about jobs: a worker, a job, time passing, and things done at the same moment."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from django.contrib.auth.models import Group, User
from django.db import connection
from jobs import operations
from jobs.models import Job, Kind, Worker
from postgres import connections

T = TypeVar("T")


def user(name: str = "ada", *, groups: Iterable[Group] = (), **fields: Any) -> User:
    """A person with a usable account."""
    person = User.objects.create_user(username=name, password="correct horse battery", **fields)
    person.groups.set(groups)
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


def submit(count: int, kind: str = "work", **options: Any) -> list[Job]:
    """Jobs with their number as payload."""
    new = [operations.NewJob(kind=kind, payload={"n": n}, **options) for n in range(count)]
    return [job for job in operations.submit_many(new) if isinstance(job, Job)]


def claim_one(by: Worker) -> operations.Claimed:
    """The one job that `by` gets now."""
    [claimed] = operations.claim(by)
    return claimed


def succeed(by: Worker, claimed: operations.Claimed, result: Any = None) -> Any:
    """Hand in a success; the new status, or LeaseLost as a value."""
    return operations.finish(
        by, [operations.Finished(job_id=claimed.id, lease=claimed.lease, outcome="success", result=result)]
    )[0]


def fail(by: Worker, claimed: operations.Claimed, error: str = "it broke", *, retryable: bool = True) -> Any:
    """Hand in a failure; the new status, or LeaseLost as a value."""
    return operations.finish(
        by,
        [
            operations.Finished(
                job_id=claimed.id, lease=claimed.lease, outcome="failed", error=error, retryable=retryable
            )
        ],
    )[0]


def status(job: Job | operations.Claimed | int) -> str:
    """The job's status as stored now."""
    pk = job if isinstance(job, int) else job.id
    return Job.objects.values_list("status", flat=True).get(pk=pk)


def pass_time(job: Job | operations.Claimed, seconds: float) -> None:
    """Let time pass for one job: all its moments move into the past."""
    columns = ("run_at", "lease_expires_at", "deadline_at", "shy_until", "expires_at", "claimed_at", "created_at")
    moves = ", ".join(f"{column} = {column} - make_interval(secs => %s)" for column in columns)
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE jobs_job SET {moves} WHERE id = %s", [seconds] * len(columns) + [job.id])


def at_once(*functions: Callable[[], T]) -> list[T]:
    """Call each function in a thread of its own, all released by one barrier; their answers in order.

    Each thread has its own connection, given back at the end. An exception is raised here.
    """
    barrier = threading.Barrier(len(functions))

    def run(function: Callable[[], T]) -> T:
        with connections.released():
            barrier.wait(timeout=30)
            return function()

    with ThreadPoolExecutor(len(functions)) as pool:
        return [future.result(timeout=120) for future in [pool.submit(run, function) for function in functions]]
