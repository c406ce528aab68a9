"""Workers: API keys with a name, home queues and a scope, stored hashed and shown once; and the
processes that report that they are there, web processes also that workers reach them (docs/adr/0042).
"""

import functools
import hashlib
import os
import secrets
import socket
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Concatenate, Final, ParamSpec, TypeVar
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User

from core import audit
from core.recent import Outdated, Recent
from core.refusal import Refusal
from jobs.domain import kinds, presence
from jobs.domain.presence import Part
from jobs.domain.quotas import Quota
from jobs.domain.workers import Facts
from jobs.errors import InvalidKey, InvalidValue, RowLocked
from jobs.models import Worker
from jobs.operations import labels, lanes, quotas
from jobs.operations.queues import ANY_QUEUE
from jobs.queries import fleet, keys, reads
from live import operations as live
from postgres import statements, transactions

PREFIX = "jfw_"  # so that a leaked key says what it is, to people and to secret scanners
HINT_CHARACTERS = 8
# What pages show of processes goes stale by time alone: each web process notifies its own watchers, as often as it
# reports itself.
PROCESSES_TOPIC: Final = "processes"
# Whose keys this process has looked up, by their hashes: for as long as nobody need note that the worker was heard of.
REMEMBERED: Final[Recent[statements.Row]] = Recent(for_s=keys.SEEN_EVERY_S)
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """This process, from its start on. Ids of processes come round again, so it has one of its own beside."""

    part: Part
    id: UUID = field(default_factory=uuid.uuid4)
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)

    def report(self) -> None:
        """Say that it is there: every `domain.presence.EVERY_S` seconds, from where the process does its work."""
        fleet.report_process(self.id, part=self.part, host=self.host, pid=self.pid)

    def beat(self) -> None:
        """Report that it is there and reachable for workers now: in a thread, and by a connection, that such
        calls use, every `domain.presence.beat_s` seconds. Waits for no lock.

        After a gap, in which nobody could say so, `jobs_reachability.since` is this moment.
        """
        lease_s: float = settings.JOBFARM["LEASE_S"]
        beat_s, gap_s = presence.beat_s(lease_s), presence.gap_s(lease_s)
        fleet.report_process(self.id, part=self.part, host=self.host, pid=self.pid, beat_s=beat_s, gap_s=gap_s)

    def end(self) -> None:
        """Say that it ends. Nothing that it reports afterwards counts."""
        fleet.end_process(self.id)


@transactions.retried
def create_worker(
    name: str, *, queues: Sequence[str], steals: Sequence[str] = (), owner: User | None = None, by: User | None = None
) -> tuple[Worker, str]:
    """Make a worker and return it with its key, which is nowhere stored in clear.

    Without an `owner` it serves everybody; with one, the owner's jobs and those of the owner's groups. The queues come
    into being with it. `by` is who made it, for the log. Raises InvalidValue for a name that cannot be a queue's,
    QuotaReached where `by` is no operator and the owner has as many workers, or they name as many queues, as may be.
    """
    named = [*queues, *(queue for queue in steals if queue != ANY_QUEUE)]
    for queue in named:
        if not kinds.NAME.fullmatch(queue):
            raise InvalidValue(field="queues", why=f"a queue is named by a-z 0-9 _ . - (at most 100), got {queue!r}")
    if not queues or not name.strip() or len(name) > 100:
        raise InvalidValue(field="name", why="a worker needs a name (at most 100 characters) and a queue")
    bounded = owner if by is not None and not reads.is_operator(by) else None
    if bounded is not None:
        _check_quotas(bounded, more=len(_new_queues(named)))
    key = _new_key()
    keys.make_queues(named, made_by=bounded)
    worker = Worker.objects.create(name=name, queues=list(queues), steals=list(steals), owner=owner, **_stored(key))
    if owner is not None:
        lanes.part(owner_id=owner.pk)  # what waits already; its claims and the janitor find the rest
    audit.record(by, worker, f"made, for {'everybody' if owner is None else owner}")
    live.touch("workers")
    return worker, key


def _check_quotas(owner: User, *, more: int) -> None:
    most_workers, most_queues = quotas.bound("WORKERS_PER_OWNER"), quotas.bound("QUEUES_PER_OWNER")
    requested = []
    if most_workers is not None:
        used = keys.workers_of(owner.pk)
        requested.append((Quota(resource="workers", of="owner", quota=most_workers, used=used), 1))
    if most_queues is not None and more:
        used = keys.queues_made_by(owner.pk)
        requested.append((Quota(resource="new queues", of="owner", quota=most_queues, used=used), more))
    quotas.refuse_first(requested)


def _new_queues(names: Iterable[str]) -> list[str]:
    """Those of these queues that nobody named yet, each once, in their order."""
    distinct = list(dict.fromkeys(names))
    known = keys.known_queues(distinct)
    return [name for name in distinct if name not in known]


def _with_room(worker: Worker, queues: Sequence[str]) -> list[str]:
    """Those of these home queues that are there, or have room among the queues of a member whose worker it is."""
    most, owner = quotas.bound("QUEUES_PER_OWNER"), worker.owner
    if owner is None or most is None or reads.is_operator(owner) or not (new := _new_queues(queues)):
        return list(queues)
    left_out = new[max(0, most - keys.queues_made_by(owner.pk)) :]
    return [queue for queue in queues if queue not in left_out]


def ensure_worker(name: str, *, queues: Sequence[str]) -> str:
    """A new key for the farm's own worker of this name, which serves everybody; made if there is none yet. Queues that
    it does not serve yet are added to its own."""
    worker = keys.own_worker(name)
    if worker is None:
        return create_worker(name, queues=queues)[1]
    added = [queue for queue in queues if queue not in worker.queues]
    keys.make_queues(added)
    Worker.objects.filter(pk=worker.pk).update(queues=[*worker.queues, *added])
    return rotate_key(worker)


@transactions.retried
def rotate_key(worker: Worker, *, by: User | None = None) -> str:
    """Give a worker a new key and return it. The old one is worthless at once, on open sockets too."""
    key = _new_key()
    # Whoever comes with the new key may ask for other queues.
    fresh = {"revoked_at": None, "polled_queues": None, "polled_at": None}
    Worker.objects.filter(pk=worker.pk).update(**fresh, **_stored(key))
    audit.record(by, worker, "given a new key")
    live.touch(f"worker:{worker.pk}", "workers")
    return key


@transactions.retried
def revoke(worker: Worker, *, by: User | None = None) -> None:
    """Make a worker's key worthless at once, on open sockets too. What it holds runs into its lease's end."""
    keys.revoke(worker)
    audit.record(by, worker, "key revoked")
    live.touch(f"worker:{worker.pk}", "workers")


def revoke_all_of(owner: User) -> None:
    for worker in Worker.objects.filter(owner=owner, revoked_at=None).order_by("pk"):
        revoke(worker)


@transactions.retried
def introduce(worker: Worker, facts: Facts) -> None:
    """Keep what a worker reports about itself when it connects, have it serve the models that it announces, where its
    key allows that (`domain.kinds`), and note what its labels satisfy. What is known is not written again. One
    that has no models any more waits for its model server: those that it had are kept, as of one that ends."""
    *before, models = keys.announced(worker.pk)
    if models and not facts.models:
        facts = replace(facts, models=tuple(models), leaving=True)
    has_changed = keys.keep_facts(worker.pk, facts)
    if before != [facts.labels, list(facts.loaded)]:
        labels.relabel(worker.pk)
    queues = _with_room(worker, kinds.with_models(worker.queues, facts.models))
    serves_others = queues != worker.queues and keys.set_home_queues(worker, queues)
    if serves_others:
        worker.queues = queues
        live.touch("queues")
    if has_changed or serves_others:
        live.touch(f"worker:{worker.pk}", "workers")


@transactions.retried
def drain(worker: Worker, *, by: User | None = None) -> bool:
    """Let this worker finish what it holds and give it nothing more, until `undrain`; whether it was not drained yet.

    A claim whose statement began before may still bring it jobs; none that begins after the commit does.
    """
    return _set_drained(worker, drained=True, by=by)


@transactions.retried
def undrain(worker: Worker, *, by: User | None = None) -> bool:
    """Let this worker claim again; whether it was drained. One that waits for jobs is woken."""
    return _set_drained(worker, drained=False, by=by)


def _set_drained(worker: Worker, *, drained: bool, by: User | None) -> bool:
    if not keys.set_drained(worker, drained=drained, by=by):
        return False
    audit.record(by, worker, "drained" if drained else "undrained")
    live.touch(f"worker:{worker.pk}", "workers", "jobs")
    return True


def authenticate(key: str) -> Worker:
    """The worker with this key, noted as heard of. Raises InvalidKey: unknown, revoked, or its owner is deactivated.

    Keys hold 256 random bits, so a plain SHA-256 is enough to store, and looking the hash up tells a stranger nothing
    about how much of a guess was right.
    """
    return _by_hash(hashed(key))


def recognize(key: str) -> Worker:
    """`authenticate`, or the worker as this process read it some seconds ago: then what is done for it has to be
    `rechecked`. Raises InvalidKey."""
    return remembered(key) or _by_hash(hashed(key))


def remembered(key: str) -> Worker | None:
    """The worker with this key as this process read it some seconds ago, for what is `rechecked`; None: it did not."""
    row = REMEMBERED.get(hashed(key))
    return None if row is None else keys.worker_of(row, is_remembered=True)


def rechecked(call: Callable[Concatenate[Worker, P], T]) -> Callable[Concatenate[Worker, P], T]:
    """The decorator for what may be called for a worker that was recognized: where its row is not as it was, or it is
    refused something, its key is looked up, and the call is made again for the worker as it is now (docs/adr/0115).

    The statements of `call` have to look at the version of the worker, and to find nothing where it is another.
    """

    @functools.wraps(call)
    def checked(worker: Worker, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(worker, *args, **kwargs)
        except (Outdated, Refusal) as error:
            if worker.version is None or isinstance(error, RowLocked):
                raise
        worker.become(_by_hash(worker.key_hash))
        return call(worker, *args, **kwargs)

    return checked


def _by_hash(key_hash: str) -> Worker:
    row = keys.worker_by_hash(key_hash)
    if row is None or not row.is_welcome:
        raise InvalidKey
    worker = keys.worker_of(row)
    if not row.is_fresh:
        seen([worker.pk])
    elif worker.drained_at is None:  # of one that is drained each call looks whether that is over
        REMEMBERED.keep(key_hash, row)
    return worker


def seen(worker_ids: Iterable[int]) -> None:
    """Note that these workers were heard of; rows that are fresh already are left alone."""
    if transactions.alone(lambda: keys.mark_seen(worker_ids)):
        live.touch("workers")


def _new_key() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def hashed(key: str) -> str:
    return hashlib.sha256(key.encode(errors="replace")).hexdigest()


def _stored(key: str) -> dict[str, str]:
    return {"key_hash": hashed(key), "key_hint": key[:HINT_CHARACTERS]}
