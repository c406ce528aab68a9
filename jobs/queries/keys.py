"""Statements about workers, queues and kinds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from jobs.domain.records import KeyScope
from jobs.domain.workers import Facts
from jobs.models import Charge, ConcurrencyKey, Fair, Live as LiveRow, Queue, Served, Worker, WorkerFacts
from postgres import clock, statements, transactions

_WORKER = [field.attname for field in Worker._meta.concrete_fields]
CEILING_WAIT_MS = 500  # for claims that are under way; less than the second of `deadlock_timeout`
_CEILING = 1_784_635_253  # as jobs_open has it
_STEALING = 1_784_635_251  # the first of the two numbers that these advisory locks have; the second is the worker's
SEEN_EVERY_S = 5  # a worker's row is rewritten at most this often, however many calls it makes


def workers_of(owner_id: int) -> int:
    """How many workers this person has whose keys open something, or that were made within a day."""
    is_new = Q(revoked_at=None) | Q(created_at__gt=Now() - timedelta(days=1))
    return Worker.objects.filter(is_new, owner=owner_id).count()


def queues_made_by(owner_id: int) -> int:
    """How many queues came into being with this person's workers."""
    return Queue.objects.filter(made_by=owner_id).count()


def worker_by_hash(key_hash: str) -> statements.Row | None:
    """The row of the worker with this key, with `is_welcome` (not revoked, and its owner is active) and `is_fresh`
    (noted as heard of lately)."""
    params = {"key_hash": key_hash, "every_s": SEEN_EVERY_S}
    return next(iter(statements.load("jobs", "worker_by_hash").run(params)), None)


def worker_of(row: statements.Row, *, is_remembered: bool = False) -> Worker:
    """The worker, as it was read; what acts for one `is_remembered` looks whether it is still that version."""
    worker = Worker.from_db("default", _WORKER, [getattr(row, name) for name in _WORKER])
    worker.read_at, worker.version = row.read_at, row.version if is_remembered else None
    return worker


def own_worker(name: str) -> Worker | None:
    """The oldest worker of this name that serves everybody."""
    return Worker.objects.filter(name=name, owner__isnull=True).order_by("pk").first()


def begin_to_steal(worker: Worker) -> bool:
    """Whether the caller's transaction may steal for this worker until it ends; False while another one does."""
    params = {"class": _STEALING, "worker": worker.pk}
    [row] = statements.load("jobs", "begin_to_steal").run(params)
    return bool(row.may_steal)


def mark_seen(worker_ids: Iterable[int]) -> bool:
    """Note that these workers were heard of just now, unless that is fresh; whether one of them had been away."""
    rows = statements.load("jobs", "mark_seen").run(
        {"worker": list(worker_ids), "every_s": SEEN_EVERY_S, "alive_s": settings.JOBFARM["WORKER_ALIVE_S"]}
    )
    return any(row.was_away for row in rows)


def note_polled(worker_id: int, names: Sequence[str]) -> statements.Row | None:
    """Note which queues this worker polls: what is known now, and what was; None if its row is being written."""
    params = {"worker": worker_id, "queues": list(names), "alive_s": settings.JOBFARM["WORKER_ALIVE_S"]}
    return next(iter(statements.load("jobs", "note_polled").run(params)), None)


def make_queues(names: Iterable[str], *, made_by: User | None = None) -> None:
    """Make the rows of queues named for the first time, by a member's worker where `made_by` says so. In order of name,
    so that two calls cannot deadlock."""
    rows = [Queue(name=name, made_by=made_by) for name in sorted(set(names))]
    Queue.objects.bulk_create(rows, ignore_conflicts=True)


def known_queues(names: Iterable[str]) -> set[str]:
    rows = statements.load("jobs", "known_queues").run({"names": sorted(set(names))})
    return {row.name for row in rows}


def lock_queue(name: str, *, keys: bool = False) -> Queue | None:
    """Lock a queue for who changes it, with `keys` also for who submits with a new concurrency key of it."""
    return Queue.objects.select_for_update(no_key=not keys).filter(name=name).first()


def set_paused(name: str, *, paused: bool, by: User | None = None) -> None:
    Queue.objects.filter(name=name).update(paused_at=Now() if paused else None, paused_by=by if paused else None)


def set_bounds(name: str, *, ceiling: int | None, fair: str) -> None:
    """Write a queue's ceiling, and how it is shared out; the caller has locked its row. What runs already counts.

    It waits for the claims of this queue that are under way, and for who ends or renews what runs; claims that come
    wait for it. Half a second at most for each: after that it fails as a lock that is not available, and is to be done
    again, for who holds a row may himself wait for this, in the claim that goes with his finish.
    """
    running = LiveRow.objects.filter(queue=name, counted_in=None, lease_secret__isnull=False)
    with transactions.waiting_at_most(CEILING_WAIT_MS):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s) %% 64)", [_CEILING, name])
        if Queue.objects.filter(name=name).exclude(fair=fair).update(fair=fair):
            for rows in (Served, Charge):  # of other shares
                rows.objects.filter(queue=name).delete()
        Queue.objects.filter(name=name).update(ceiling=ceiling)
        if ceiling is not None or fair != Fair.OFF:
            ids = list(running.select_for_update().order_by("pk").values_list("pk", flat=True))
            LiveRow.objects.filter(pk__in=ids).update(counted_in=name)


def set_key_bounds(bounds: Mapping[str, int | None], *, queue: str = "") -> None:
    """How many jobs of each concurrency key of these kinds (or "": of this queue) run at a time from now on."""
    for kind in ConcurrencyKey.objects.filter(kind__in=bounds, queue=queue).values_list("kind", flat=True).distinct():
        bound = bounds[kind]
        ConcurrencyKey.objects.filter(kind=kind, queue=queue).exclude(bound=bound).update(bound=bound)


def set_key_paused(key_id: int, *, paused: bool, by: User | None) -> ConcurrencyKey | None:
    """Pause this concurrency key, or end that: the key, or None where it is so already."""
    row = ConcurrencyKey.objects.select_for_update().filter(pk=key_id, paused_at__isnull=paused).first()
    if row is not None:
        words = {"paused_at": Now() if paused else None, "paused_by": by if paused else None}
        ConcurrencyKey.objects.filter(pk=key_id).update(**words)
    return row


def queues_of(**whose: int) -> list[str]:
    """The queues in which jobs of this `owner`, or with this `key`, wait."""
    waiting = LiveRow.objects.filter(lease_secret=None, **whose)
    return list(waiting.order_by("queue").values_list("queue", flat=True).distinct())


def key_ids(scopes: Mapping[tuple[KeyScope, str], Any]) -> dict[tuple[KeyScope, str], int]:
    """The ids of these concurrency keys, each a name in its scope; new ones are made."""
    columns = zip(*[(*scope, name) for scope, name in scopes], strict=True)
    params = dict(zip(("kind", "queue", "bound", "name"), map(list, columns), strict=True))
    rows = {(row.kind, row.queue, row.name): row.id for row in statements.load("jobs", "key_ids").run(params)}
    return {(scope, name): rows[scope.kind, scope.queue, name] for scope, name in scopes}


@transactions.retried
def delete_keys(limit: int, _: int) -> int:
    """Delete concurrency keys that were used by no submit for two days and are no living job's; how many. Paused ones
    stay."""
    is_living = LiveRow.objects.filter(key=OuterRef("pk"))
    old = ConcurrencyKey.objects.filter(~Exists(is_living), used_at__lt=Now() - timedelta(days=2), paused_at=None)
    ids = list(old.order_by("pk").values_list("pk", flat=True)[:limit])
    return ConcurrencyKey.objects.filter(pk__in=ids, used_at__lt=Now() - timedelta(days=2)).delete()[0]


def lock_keys(ids: Iterable[int]) -> None:
    """Wait until nobody else submits with one of these concurrency keys; it lasts until the transaction ends. Who
    has one snapshot collides with a submit that it does not see: the rows are written."""
    rows = ConcurrencyKey.objects.filter(pk__in=list(ids))
    locked = rows.select_for_update(no_key=True).order_by("kind", "queue", "name")  # as key_ids.sql has it
    rows.filter(pk__in=[row.pk for row in locked]).update(used_at=Now())


def living_of_key(key_id: int) -> list[LiveRow]:
    """The jobs that run or wait with this key, oldest first: whose they are, and whether they run."""
    return list(LiveRow.objects.filter(key=key_id).order_by("pk").only("pk", "owner_id", "lease_secret"))


def kind(name: str) -> statements.Row | None:
    return next(iter(statements.load("jobs", "kind").run({"name": name})), None)


def announced(worker_id: int) -> tuple[Mapping[str, str], list[str], list[str]]:
    """The labels that this worker announced last, which models it has loaded, and which it serves."""
    facts = WorkerFacts.objects.filter(pk=worker_id).only("labels", "loaded", "models").first()
    return (facts.labels, facts.loaded, facts.models) if facts else ({}, [], [])


def keep_facts(worker_id: int, facts: Facts) -> bool:
    """Keep what a worker reports about itself; whether it was news. Nothing is written where it says what is known."""
    lists = {name: list(getattr(facts, name)) for name in ("handlers", "models", "loaded", "stuck")}
    fields = asdict(facts) | lists
    if WorkerFacts.objects.filter(pk=worker_id, **fields).exists():
        return False
    row = WorkerFacts(worker_id=worker_id, reported_at=Now(), **fields)
    changed = [*fields, "reported_at"]
    WorkerFacts.objects.bulk_create([row], update_conflicts=True, unique_fields=["worker"], update_fields=changed)
    return True


def set_drained(worker: Worker, *, drained: bool, by: User | None = None) -> bool:
    """Drain this worker from the database's now on, or end that; whether that changed anything."""
    rows = Worker.objects.filter(pk=worker.pk, drained_at__isnull=drained, revoked_at=None)
    return bool(rows.update(drained_at=clock.now() if drained else None, drained_by=by if drained else None))


def set_home_queues(worker: Worker, queues: Sequence[str]) -> bool:
    """Write which home queues this worker has now, unless somebody gave it others since its row was read."""
    make_queues(queues, made_by=worker.owner)
    return bool(Worker.objects.filter(pk=worker.pk, queues=worker.queues).update(queues=list(queues)))


def revoke(worker: Worker) -> None:
    """Make the worker's key worthless, from the database's now on."""
    Worker.objects.filter(pk=worker.pk, revoked_at__isnull=True).update(revoked_at=clock.now())
