"""All of django-q2 that the farm stands on: what is taken from it, what stands in for a part of it, and why.

No other module imports it. What is done with it here is no public interface of it, so the farm knows the inside of one
version; a test says so when another one is installed.
"""

import ast
import logging
import os
import time
import uuid
from contextlib import nullcontext, suppress
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, Final

from django_q.brokers import (
    Broker as _Broker,  # its setting `broker_class` names a subclass of this
    get_broker,  # makes one of ours, by that setting
)
from django_q.conf import Conf  # its settings, and its words for what a cluster does
from django_q.models import (
    Failure,  # its own tasks that are over, in the administration
    OrmQ,  # the queue of its own tasks
    Schedule,  # its own schedules
    Success,  # as Failure
    Task,  # both of them
)
from django_q.monitor import monitor  # the loop that stores results of its own tasks
from django_q.scheduler import scheduler as make_tasks  # of its own schedules that are due
from django_q.signing import BadSignature, SignedPackage  # how it packs tasks, and what a cluster reports
from django_q.status import Stat  # what that is; reads attributes of a sentinel by their names
from django_q.worker import worker  # the loop that calls functions, and ends after so many

from observing.logs import sentence_of
from postgres import clock, statements
from scheduling.domain.calls import Kind
from scheduling.operations import notifications
from scheduling.queries import functions

# Read anew for each version: signatures and inside of the loops above, the attributes that Stat reads, the keys of a
# task and of a result, and who calls which method of a broker.
KNOWN_VERSION: Final = "1.11.1"

SCHEDULER_S: Final = 30.0  # its own pace for its schedules
WALKED: Final = timedelta(days=1)
OWN: Final = "own"  # wakes those who run its tasks
POLL_S: Final = 0.2  # how often its own cluster looks

log = logging.getLogger(__name__)

Package = tuple[Any, str]  # what its monitor acknowledges a task by, and the signed task

__all__ = ["KNOWN_VERSION", "Conf", "Failure", "Schedule", "Success", "scheduler", "worker"]


class Broker(_Broker):  # type: ignore[misc]  # django-q2 ships no types
    """Serves django-q2's own tasks, those of `async_task` and `Schedule`: rows of its own table. Each method says who
    calls it; nobody calls the others that its base class has."""

    def tasks(self, limit: int) -> list[dict[str, Any]]:
        """Up to `limit` of them, unpacked as its pusher would, given out for as long as its setting `retry` says.
        Called by our dispatcher."""
        more = {"cluster": Conf.CLUSTER_NAME}
        return [task | more | {"ack_id": row.id} for row, task in self._take(limit)]

    def dequeue(self) -> list[Package]:
        """The next task, or none after a moment. Called by the pusher of its own cluster (`manage.py qcluster`)."""
        packages = [(row.id, row.payload) for row, _ in self._take(1)]
        if not packages:
            time.sleep(POLL_S)
        return packages

    def _take(self, limit: int) -> list[tuple[Any, dict[str, Any]]]:
        params = {"key": self.list_key, "limit": limit, "retry_s": float(Conf.RETRY)}
        rows = statements.load("scheduling", "own_tasks").run(params)
        return [(row, task) for row in rows if (task := self._unpack(row)) is not None]

    def _unpack(self, row: Any) -> dict[str, Any] | None:
        """None for one that cannot be read: another key signed it, or its classes left the code. It is put aside, since
        the others of its batch would wait for it at every turn."""
        try:
            task: dict[str, Any] = SignedPackage.loads(row.payload)
        except Exception as error:
            if isinstance(error, TypeError | BadSignature):
                log.error("A task of django-q2 was signed by somebody else: %s", error)  # noqa: TRY400  # no fault of ours
            else:
                _put_aside(f"task {row.id}", func="", error=error)
            self.acknowledge(row.id)
            return None
        return task

    def enqueue(self, task: str) -> int:
        """Queue one in the caller's transaction; the id it is acknowledged by. Called by `async_task`."""
        queued = OrmQ.objects.create(key=self.list_key or Conf.CLUSTER_NAME, payload=task, lock=clock.now())
        notifications.due([OWN])
        pk: int = queued.pk
        return pk

    def acknowledge(self, task_id: Any) -> None:
        """Forget one, because it was done. Called by the monitor."""
        OrmQ.objects.filter(pk=task_id).delete()

    def queue_size(self) -> int:
        """How many wait. Called by `queue_size` and `qmonitor`."""
        return int(OrmQ.objects.filter(key=self.list_key, lock__lte=clock.now()).count())

    def lock_size(self) -> int:
        """How many are being worked on. Called by `qmonitor`."""
        return int(OrmQ.objects.filter(key=self.list_key, lock__gt=clock.now()).count())

    def info(self) -> str:
        """What `qmonitor` and `qinfo` call us."""
        return "jobfarm on PostgreSQL"

    def get_stat(self, key: str) -> str | None:
        """What a cluster reported. Called by `Stat.get`; there is one farm in a database."""
        return next(iter(self.get_stats(key)), None)

    def get_stats(self, pattern: str) -> list[str]:  # noqa: ARG002
        """What clusters reported within the last ten seconds. In rows, since a cache may belong to one
        process. Called by `Stat.get_all`: `qmonitor`, `qinfo`, `qmemory`."""
        return [stat.decode() for stat in functions.stats()]


def scheduler(*, broker: Broker) -> None:
    """Make tasks of its own schedules that are due. It does so in one transaction, which a schedule that cannot be read
    rolls back at every turn: such a one repeats no more, and a failed task says why. One of minutes that was due long
    ago is brought near: it would be walked minute by minute, and nothing else happens here meanwhile."""
    now = clock.now()
    for row in Schedule.objects.exclude(repeats=0).filter(next_run__lt=now):
        try:
            _check(row)
            if row.schedule_type == Schedule.MINUTES and not Conf.CATCH_UP and now - row.next_run > WALKED:
                every = timedelta(minutes=row.minutes or 1)
                near = row.next_run + (now - row.next_run) // every * every
                Schedule.objects.filter(pk=row.pk, next_run=row.next_run).update(next_run=near)
        except Exception as error:
            _put_aside(f"schedule {row.name or row.pk}", func=row.func, error=error)
            Schedule.objects.filter(pk=row.pk).update(repeats=0)
    make_tasks(broker=broker)


def _check(row: Any) -> None:
    """Raise what making a task of this schedule would raise."""
    if row.args:
        ast.literal_eval(row.args)
    options: Any = {}
    with suppress(SyntaxError, ValueError):  # "a=1, b=2", or what it ignores
        options = ast.literal_eval(row.kwargs or "{}")
    if not isinstance(options, dict) or not isinstance(options.get("q_options", {}), dict):
        raise TypeError("its keyword arguments are no mapping")
    if row.schedule_type != Schedule.ONCE:
        row.calculate_next_run(row.next_run)


def _put_aside(entry: str, *, func: str, error: Exception) -> None:
    """Leave a failed task that names what could not be read, and why."""
    why = f"{entry} cannot be read: {sentence_of(error)}"
    log.error("django-q2's %s", why, exc_info=error)
    now = clock.now()
    Task.objects.create(
        id=uuid.uuid4().hex, name=why[:100], func=func or "unknown", started=now, stopped=now, success=False
    )


class Timer:
    """Where a worker's loop says how long its task may still take, in place of a number whose lock a killed process
    would keep. Nobody reads it: a task's own timeout ends it."""

    value = -1.0

    def get_lock(self) -> Any:
        """Nothing to wait for: one process writes."""
        return nullcontext()


def task(function: str, argument: object) -> dict[str, Any]:
    """A task for the worker's loop: call the function of this dotted name. Its name is for logs that nobody reads, ours
    write their own; and ours are timed by themselves."""
    call = {"func": function, "args": (argument,), "kwargs": {}}
    return {"id": "", "name": "", "save": False, "timeout": -1, "started": None, "ack_id": None, **call}


def store(result: Any) -> None:
    """Keep the result of one of its own tasks, and acknowledge it, as its monitor does. Those that `task` made write
    their own."""
    if result.get("ack_id") is not None or not result["success"]:
        results = iter((result, "STOP"))
        monitor(SimpleNamespace(get=lambda: next(results)), get_broker())


def stat(cluster_id: uuid.UUID, broker: Broker, pool: Any) -> bytes:
    """What its own monitor shows of a cluster of ours: what it reads of a sentinel, by its names."""
    sentinel = SimpleNamespace(
        cluster_id=cluster_id, broker=broker, pid=os.getpid(), parent_pid=os.getpid(), tob=None, reincarnations=0,
        status=lambda: Conf.WORKING if pool.busy() else Conf.IDLE, monitor=None, pusher=None,
        task_queue=SimpleNamespace(qsize=lambda: 0), result_queue=SimpleNamespace(qsize=lambda: 0),
        pool=[worker.process for worker in pool.workers],
    )  # fmt: skip
    return bytes(SignedPackage.dumps(Stat(sentinel), compressed=True).encode())


def serve(kind: Kind) -> None:
    """Be a cluster for this kind from now on, as Q_CLUSTER_NAME would make it before Django is loaded: that for actions
    runs django-q2's own tasks and schedules, that for mutations does not."""
    if kind is Kind.MUTATION:
        Conf.CLUSTER_NAME, Conf.SCHEDULER = "mutations", False


def is_used() -> bool:
    """Whether anybody uses its own interface: it has schedules or tasks, be they over."""
    return any(table.objects.exists() for table in (Schedule, Task, OrmQ))
