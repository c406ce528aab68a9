"""Statements about workers, queues and kinds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef
from django.db.models.functions import Now

from jobs.domain.states import Status
from jobs.models import Job, Kind, Queue, Slot, Worker
from postgres import clock, statements

_COLUMNS = [field.attname for field in Worker._meta.concrete_fields]  # noqa: SLF001 (Django documents _meta)
SEEN_EVERY_S = 5  # a worker's row is rewritten at most this often, however many calls it makes


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Whose key it is. `is_welcome`: not revoked, and its owner is active. `is_fresh`: noted as heard of lately."""

    worker: Worker
    is_welcome: bool
    is_fresh: bool


def worker_by_hash(key_hash: str) -> Caller | None:
    """The worker whose key has this hash."""
    given = {"key_hash": key_hash, "every_s": SEEN_EVERY_S}
    for row in statements.load("jobs", "worker_by_hash").run(given):
        worker = Worker.from_db("default", _COLUMNS, [getattr(row, name) for name in _COLUMNS])
        worker.read_at = row.read_at
        return Caller(worker=worker, is_welcome=row.is_welcome, is_fresh=row.is_fresh)
    return None


def own_worker(name: str) -> Worker | None:
    """The oldest worker of this name that serves everybody."""
    return Worker.objects.filter(name=name, owner__isnull=True).order_by("pk").first()


def mark_seen(worker_ids: Iterable[int]) -> bool:
    """Note that these workers were heard of just now, unless that is fresh; whether one of them had been away."""
    rows = statements.load("jobs", "mark_seen").run(
        {"worker": list(worker_ids), "every_s": SEEN_EVERY_S, "alive_s": settings.JOBFARM["WORKER_ALIVE_S"]}
    )
    return any(row.was_away for row in rows)


def note_asked(worker_id: int, names: Sequence[str]) -> statements.Row | None:
    """Note which queues this worker asks for: what is known now, and what was; None if its row is being written."""
    given = {"worker": worker_id, "queues": list(names), "alive_s": settings.JOBFARM["WORKER_ALIVE_S"]}
    return next(iter(statements.load("jobs", "note_asked").run(given)), None)


def make_queues(names: Iterable[str]) -> None:
    """Make the rows of queues named for the first time. In order of name, so that two calls cannot deadlock."""
    Queue.objects.bulk_create([Queue(name=name) for name in sorted(set(names))], ignore_conflicts=True)


def known_queues(names: Iterable[str]) -> set[str]:
    """Which of these queues exist."""
    return set(Queue.objects.filter(name__in=set(names)).values_list("name", flat=True))


def all_queues() -> list[str]:
    """The names of all queues."""
    return list(Queue.objects.values_list("name", flat=True))


def lock_queue(name: str) -> Queue | None:
    """The queue's row, locked until the transaction ends."""
    return Queue.objects.select_for_update().filter(name=name).first()


def set_paused(name: str, *, paused: bool, by: User | None = None) -> None:
    """Pause a queue, or resume it."""
    Queue.objects.filter(name=name).update(
        paused_at=Now() if paused else None, paused_by=by if paused else None
    )


def set_ceiling(name: str, ceiling: int | None) -> None:
    """Write a queue's ceiling; the slots are `seat`'s."""
    Queue.objects.filter(name=name).update(ceiling=ceiling)


def kind(name: str) -> Kind | None:
    """The kind that a person made under this name."""
    return Kind.objects.filter(name=name).first()


def lock_running(queue: str) -> list[int]:
    """The running jobs of a queue, locked in the order of their ids."""
    running = Job.objects.select_for_update().filter(status=Status.IN_PROGRESS, queue=queue).order_by("pk")
    return list(running.values_list("pk", flat=True))


def seat(queue: str, newcomers: Sequence[int], *, ceiling: int) -> None:
    """Give the queue slots 0 to `ceiling` - 1, the first ones held by running jobs.

    Who holds a slot is read from the locked slots themselves: a claim that was under way has committed by
    then. `newcomers` run without one, and their rows are locked. More running jobs than `ceiling` keep slots
    beyond it. Rows are changed in place: a job that ends now waits for its slot's row, and frees it.
    """
    slots = list(Slot.objects.select_for_update().filter(queue_id=queue).order_by("n"))
    free = [slot for slot in slots if slot.job_id is None]
    seats = [slot for slot in slots if slot.job_id is not None]
    for job_id in [*newcomers, *[None] * max(0, ceiling - len(seats) - len(newcomers))]:
        slot = free.pop(0) if free else Slot(queue_id=queue)
        slot.job_id = job_id
        seats.append(slot)
    for n, slot in enumerate(seats):
        slot.n = n
    Slot.objects.filter(pk__in=[slot.pk for slot in free]).delete()
    Slot.objects.bulk_update([slot for slot in seats if slot.pk], ["n", "job_id"])
    Slot.objects.bulk_create([slot for slot in seats if not slot.pk])


def remove_slots(queue: str) -> None:
    """Take all slots of a queue away; jobs that hold one run on without."""
    Slot.objects.filter(queue_id=queue).delete()


def free_empty_slots() -> int:
    """Free slots whose job does not run any more; how many there were. None, unless somebody edited rows by hand."""
    running = Job.objects.filter(status=Status.IN_PROGRESS, pk=OuterRef("job_id"))
    return Slot.objects.filter(~Exists(running), job_id__isnull=False).update(job_id=None)


def count_live() -> int:
    """How many workers were heard of lately."""
    since = Now() - timedelta(seconds=settings.JOBFARM["WORKER_ALIVE_S"])
    return Worker.objects.filter(revoked_at__isnull=True, last_seen_at__gt=since).count()


def revoke(worker: Worker) -> None:
    """Make the worker's key worthless, from the database's now on."""
    Worker.objects.filter(pk=worker.pk, revoked_at__isnull=True).update(revoked_at=clock.now())
