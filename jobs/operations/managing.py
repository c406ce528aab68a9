"""Queues, kinds and share links."""

import secrets

from django.contrib.auth.models import User

from core import audit
from jobs import kinds
from jobs.domain import ceilings
from jobs.domain.kinds import Kind
from jobs.errors import InvalidValue, NotAllowed, UnknownQueue
from jobs.models import Kind as KindRow
from jobs.models import Queue, Share
from jobs.operations import announcing, lookups
from jobs.queries import keys, reads
from live import operations as live
from postgres import transactions

MOST_SLOTS = 10_000


def sync() -> None:
    """Make the queues of the kinds that are declared in code. Done after every migrate, and at the farm's start."""
    keys.make_queues(kind.queue for kind in kinds.DECLARED.values())


@transactions.retried
def create_kind(kind: Kind) -> None:
    """Keep a kind as a row, and its queue.

    Raises InvalidValue if code declares one of that name, and for a limit that is not declared or never grants that.
    """
    if kind.name in kinds.DECLARED:
        raise InvalidValue(field="name", why=f"the kind {kind.name} is declared in code, which wins")
    kinds.check_limit(kind)
    keys.make_queues([kind.queue])
    KindRow.objects.update_or_create(
        name=kind.name,
        defaults={
            "queue": kind.queue,
            "max_attempts": kind.max_attempts,
            "backoff_first_s": kind.backoff.first_s,
            "backoff_base": kind.backoff.base,
            "backoff_cap_s": kind.backoff.cap_s,
            "timeout_s": kind.timeout_s,
            "expires_s": kind.expires_s,
            "retry_when_lost": kind.retry_when_lost,
            "retry_on_timeout": kind.retry_on_timeout,
            "priority": kind.priority,
            "limit": kind.limit,
            "limit_count": kind.limit_count,
            "limit_key": kind.limit_key,
        },
    )


@transactions.retried
def pause(queue: str, *, by: User | None = None) -> None:
    """Let nothing of this queue be claimed; what runs goes on. Raises UnknownQueue."""
    row = _locked(queue)
    if row.paused_at is None:
        keys.set_paused(queue, paused=True, by=by)
        audit.record(by, row, "paused")
        live.touch(f"queue:{queue}", "queues")


@transactions.retried
def resume(queue: str, *, by: User | None = None) -> None:
    """Let the jobs of this queue be claimed again. Raises UnknownQueue."""
    audit.record(by, _locked(queue), "resumed")
    keys.set_paused(queue, paused=False)
    live.touch(f"queue:{queue}", "queues")
    announcing.available(queue)


@transactions.retried
def set_ceiling(queue: str, ceiling: int | None, *, by: User | None = None) -> None:
    """Bound how many jobs of this queue run at a time; None takes the bound away. Raises UnknownQueue, InvalidValue.

    What runs already goes on, and is counted, claims that are under way at this moment among it. A queue's first
    ceiling waits for those of all queues (docs/adr/0044).
    """
    if ceiling is not None and not 0 <= ceiling <= MOST_SLOTS:
        raise InvalidValue(field="ceiling", why=f"from 0 to {MOST_SLOTS}, got {ceiling}")
    row = _locked(queue)
    audit.record(by, row, f"ceiling set to {ceiling}")
    _move_slots(row, ceiling)
    keys.set_ceiling(queue, ceiling)
    live.touch(f"queue:{queue}", "queues")
    announcing.available(queue)


@transactions.retried
def share(job_id: int, *, by: User) -> Share:
    """The link that shows this job without a log-in, made at the first call. Raises NotFound, NotAllowed."""
    job = lookups.job(job_id, by=by)
    if not reads.may_operate(by, job):
        raise NotAllowed
    share, is_new = Share.objects.get_or_create(
        job_id=job.pk, defaults={"token": secrets.token_urlsafe(32), "created_by": by}
    )
    if is_new:
        audit.record(by, job, "shared by a link")
    return share


@transactions.retried
def unshare(job_id: int, *, by: User) -> None:
    """Make the job's link worthless. Raises NotFound, NotAllowed."""
    job = lookups.job(job_id, by=by)
    if not reads.may_operate(by, job):
        raise NotAllowed
    if Share.objects.filter(job_id=job.pk).delete()[0]:
        audit.record(by, job, "link withdrawn")
    live.touch(f"share:{job.pk}")


def _move_slots(queue: Queue, ceiling: int | None) -> None:
    """The slots of a locked queue follow its ceiling. Who locks what in which order: docs/adr/0044."""
    if ceiling is None:
        keys.remove_slots(keys.lock_slots(queue.name))
    elif queue.ceiling is None:
        _make_slots(queue.name, ceiling)
    else:
        _renumber_slots(queue.name, ceiling)


def _make_slots(queue: str, ceiling: int) -> None:
    """A queue without slots says nothing of who runs: so nobody claims or ends a job while that is counted."""
    keys.close_slots()
    running = keys.running(queue)
    keys.remove_slots(keys.lock_slots(queue))  # there are none, unless somebody edited rows by hand
    keys.add_slots(queue, range(max(ceiling, len(running))), holders=running)


def _renumber_slots(queue: str, ceiling: int) -> None:
    """Who holds a slot is read from the locked slots: a claim that was under way has committed by then."""
    slots = {slot.n: slot for slot in keys.lock_slots(queue)}
    held = {n for n, slot in slots.items() if slot.job_id is not None}
    moved = ceilings.move(held=held, free=slots.keys() - held, ceiling=ceiling)
    keys.remove_slots([slots[n] for n in moved.removed])
    for n, number in moved.renumbered.items():
        slots[n].n = number
    keys.renumber_slots([slots[n] for n in moved.renumbered])
    keys.add_slots(queue, moved.added)


def _locked(queue: str) -> Queue:
    row = None if "\x00" in queue else keys.lock_queue(queue)
    if row is None:
        raise UnknownQueue(queue=queue)
    return row
