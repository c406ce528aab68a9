"""Queues and kinds; and who may give which priority, and choose another queue than the kind's own.

Rights are asked of people alone: code of the site submits as it likes (docs/adr/0057).
"""

import json
from functools import lru_cache
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.models import User

from core import audit
from core.backoff import Backoff
from core.recent import Recent
from core.refusal import existing
from jobs import kinds
from jobs.domain.bulks import BulkAction
from jobs.domain.kinds import Kind, is_of_model
from jobs.errors import BrokenKind, InvalidValue, PriorityNotAllowed, QueueChoiceNotAllowed, UnknownKind, UnknownQueue
from jobs.models import Fair, Job, Kind as KindRow, Queue
from jobs.operations import events, hooks, lanes
from jobs.queries import keys, lanes as lane_queries, reads
from live import operations as live
from postgres import transactions
from postgres.statements import Row
from ratelimits import operations as ratelimits

# What a kind and its row call by the same name, and what of its backoff the row has.
_SAME: Final = (
    *("queue", "priority", "max_attempts", "timeout_s", "expires_s", "retry_when_lost", "retry_on_timeout"),
    *("limit", "limit_count", "limit_key", "concurrency", "concurrency_key", "on_overflow", "keep_content", "redact"),
)
_OF_BACKOFF: Final = ("first_s", "base", "cap_s")
ANY_QUEUE: Final = "*"  # all queues; where a worker polls, all that its key may take
HIGHEST_CEILING = 10_000
LONGEST_VALUE: Final = 100  # characters of what a bulk action sets, as its column has it
LONGEST_AGE_S = 30 * 86400
MOST_PARTED = 10_000  # jobs that wait while their owner is paused, by the call itself
RAISE: Final = "jobs.raise_priority"
CHOOSE: Final = "jobs.choose_queue"
_RECENT: Final[Recent[Row]] = Recent(for_s=5.0)  # kinds that this process has looked up


def sync() -> None:
    """Make the queues of the kinds that are declared in code, and give their concurrency keys the bounds that they
    say. Done after every migrate, and at the farm's start."""
    keys.make_queues(kind.queue for kind in kinds.DECLARED.values())
    keys.set_key_bounds({kind.name: kind.concurrency for kind in kinds.DECLARED.values()})


@transactions.retried
def create_kind(kind: Kind) -> None:
    """Keep a kind as a row, and its queue.

    Raises InvalidValue if code declares one of that name, and for a limit that is not declared or never grants that.
    """
    if kind.name in kinds.DECLARED:
        raise InvalidValue(field="name", why=f"the kind {kind.name} is declared in code, which wins")
    kinds.check_limit(kind, find=ratelimits.config_of)
    keys.make_queues([kind.queue])
    columns = {name: getattr(kind, name) for name in _SAME} | {"requires": dict(kind.requires)}
    columns |= {f"backoff_{name}": getattr(kind.backoff, name) for name in _OF_BACKOFF}
    KindRow.objects.update_or_create(name=kind.name, defaults=columns)
    keys.set_key_bounds({kind.name: kind.concurrency})


@transactions.retried
def pause(queue: str, *, by: User | None = None) -> None:
    """Let nothing of this queue be claimed; what runs goes on. Raises UnknownQueue."""
    row = _locked(queue)
    if row.paused_at is None:
        keys.set_paused(queue, paused=True, by=by)
        audit.record(by, row, "paused")
        events.changed("queue.paused", f"queue/{queue}", by=by, queue=queue)
        live.touch(f"queue:{queue}", "queues")


@transactions.retried
def resume(queue: str, *, by: User | None = None) -> None:
    """Let the jobs of this queue be claimed again. Raises UnknownQueue."""
    row = _locked(queue)
    _changed(row, "resumed", by=by)
    keys.set_paused(queue, paused=False)
    if row.paused_at is not None:
        events.changed("queue.resumed", f"queue/{queue}", by=by, queue=queue)


@transactions.retried
def pause_key(key_id: int, *, by: User | None = None) -> None:
    """Let none of the jobs with this concurrency key be claimed; what runs goes on."""
    _set_key_paused(key_id, word="paused", by=by)


@transactions.retried
def resume_key(key_id: int, *, by: User | None = None) -> None:
    """Let the jobs with this concurrency key be claimed again."""
    _set_key_paused(key_id, word="resumed", by=by)


def pause_owner(owner: User, *, by: User | None = None) -> None:
    """Let none of this person's jobs be claimed. What runs goes on, and what is submitted or tried again waits. Of what
    waits already the janitor moves all but the first 10,000 out of the way of claims, within seconds, and what is
    being submitted at this moment."""
    if _set_owner_paused(owner, paused=True, by=by):
        any(lanes.part_paused() for _ in range(MOST_PARTED // lanes.MOVED))


def resume_owner(owner: User, *, by: User | None = None) -> None:
    """Let the jobs of this person be claimed again, all at once. They have grown older meanwhile."""
    _set_owner_paused(owner, paused=False, by=by)


@transactions.retried
def set_ceiling(queue: str, ceiling: int | None, *, by: User | None = None) -> None:
    """Bound how many jobs of this queue run at a time. None takes the bound away. Raises UnknownQueue, InvalidValue.

    What runs already goes on, and is counted, claims that are under way at this moment among it.
    """
    if ceiling is not None and not 0 <= ceiling <= HIGHEST_CEILING:
        raise InvalidValue(field="ceiling", why=f"from 0 to {HIGHEST_CEILING}, got {ceiling}")
    row = _locked(queue)
    _changed(row, f"ceiling set to {ceiling}", by=by)
    keys.set_bounds(queue, ceiling=ceiling, fair=row.fair)


@transactions.retried
def set_fair(queue: str, fair: str, *, by: User | None = None) -> None:
    """Share this queue out by "owner", "group" or concurrency "key" from now on, or ("off") take its jobs in their
    order. Raises UnknownQueue, InvalidValue.

    Of each priority the next job is of the share that was served the least: the seconds that its jobs have run and run
    now, divided by its weight (docs/adr/0121). What runs already counts. Jobs that wait are sorted within seconds, by
    the janitor; until then those that come are taken before them.
    """
    if fair not in Fair.values:
        raise InvalidValue(field="fair", why=f"one of {', '.join(Fair.values)}, got {fair}")
    row = _locked(queue)
    if row.fair != fair:
        _changed(row, f"fair share set to {fair}", by=by)
        keys.set_bounds(queue, ceiling=row.ceiling, fair=fair)


@transactions.retried
def set_ages_after(queue: str, seconds: int | None, *, by: User | None = None) -> None:
    """Let a job of this queue count one priority higher for each time that it has been due for so many seconds. It
    rises up to what is the most urgent that waits; None: never again. What has risen stays where it is. Raises
    UnknownQueue, InvalidValue.

    The janitor sees to it every few seconds. A job that is tried again, or moved, begins anew when it is due."""
    if seconds is not None and not 1 <= seconds <= LONGEST_AGE_S:
        raise InvalidValue(field="ages_after", why=f"from 1 to {LONGEST_AGE_S} seconds, got {seconds}")
    row = _locked(queue)
    if row.ages_after != seconds:
        _changed(row, f"ages after set to {seconds}", by=by)
        Queue.objects.filter(pk=row.pk).update(ages_after=seconds)


@transactions.retried
def bound_keys(queue: str, most: int | None, *, by: User | None = None) -> None:
    """Bound how many jobs of each concurrency key of this queue run at a time. None takes the bound away. A kind that
    has a concurrency of its own keeps it. Raises UnknownQueue, InvalidValue. What runs goes on, and counts."""
    if most is not None and not 1 <= most <= HIGHEST_CEILING:
        raise InvalidValue(field="of_key", why=f"from 1 to {HIGHEST_CEILING}, got {most}")
    row = _locked(queue, keys=True)
    if row.of_key != most:
        _changed(row, f"bound of each concurrency key set to {most}", by=by)
        Queue.objects.filter(pk=row.pk).update(of_key=most)
        keys.set_key_bounds({"": most}, queue=queue)


def known_kind(name: str) -> Kind | None:
    """The kind called `name`, as `kind_of`; None if that is gone, or broken, by now: its jobs are still there."""
    try:
        return kind_of(name)
    except UnknownKind:
        return None


def kind_of(name: str) -> Kind:
    """The kind called `name`: the one declared in code, or the row that a person made. Raises UnknownKind, BrokenKind
    for a row that was edited into nonsense."""
    if (declared := kinds.DECLARED.get(name)) is not None:
        return declared
    row = existing(keys.kind(name) if "\x00" not in name else None, UnknownKind(kind=name))
    _RECENT.keep(name, row)
    return _kind(row)


def recent_kind(name: str) -> tuple[Kind, str | None]:
    """`kind_of`, or as this process read its row some seconds ago: then also the version that the row has to have still
    where it is used (docs/adr/0115)."""
    if (declared := kinds.DECLARED.get(name)) is not None:
        return declared, None
    row = _RECENT.get(name)
    return (kind_of(name), None) if row is None else (_kind(row), row.version)


@lru_cache(maxsize=1000)
def _kind(row: Row) -> Kind:
    """The kind of a row: it is checked once, and not with each of its jobs."""
    same: dict[str, Any] = {name: getattr(row, name) for name in ("name", *_SAME)}
    try:
        backoff = Backoff(**{name: getattr(row, f"backoff_{name}") for name in _OF_BACKOFF})
        return Kind(**same, backoff=backoff, requires=json.loads(row.requires))
    except ValueError as error:
        raise BrokenKind(kind=row.name, why=str(error)) from None


def backoff_of(kind_name: str) -> Backoff:
    """How long a failed job of this kind waits; the default where the kind is gone, or broken, by now."""
    kind = known_kind(kind_name)
    return Backoff() if kind is None else kind.backoff


def check_rights(kind: Kind, *, queue: str, priority: int, by: User) -> None:
    """Raise PriorityNotAllowed or QueueChoiceNotAllowed if a job of this kind takes a right that `by` does not have."""
    _check_priority(priority, kind, by=by)
    _check_queue(queue, kind, by=by)


def check_retry(job: Job, *, by: User) -> None:
    """Raise as `check_rights` for a new job with the queue and the priority of this one. Raises UnknownKind."""
    check_rights(kind_of(job.kind), queue=job.queue, priority=job.priority, by=by)


def check_bulk_value(action: BulkAction, value: str) -> None:
    """Raise UnknownQueue or InvalidValue for what this bulk action cannot set."""
    if action is BulkAction.UNDO:
        raise InvalidValue(field="action", why="a bulk is undone by its own button")
    if len(value) > LONGEST_VALUE:
        raise InvalidValue(field="value", why=f"at most {LONGEST_VALUE} characters")
    if action is BulkAction.QUEUE and not keys.known_queues([value]):
        raise UnknownQueue(queue=value)
    if action is BulkAction.PRIORITY:
        _check_range(value)


def check_priority(priority: int, *, kind: str, by: User | None) -> None:
    """Raise InvalidValue, and PriorityNotAllowed where `by` may not give a job of this kind such a priority."""
    _check_range(priority)
    if by is not None:
        _check_priority(priority, known_kind(kind), by=by)


def check_bulk(action: BulkAction, value: str, *, kind: str, by: User) -> None:
    """Raise as `check_rights` for giving `value` to all jobs of this kind; of any kind if it is empty."""
    if action is BulkAction.PRIORITY:
        _check_priority(int(value), known_kind(kind), by=by)
    elif action is BulkAction.QUEUE:
        _check_queue(value, known_kind(kind), by=by)


def _set_key_paused(key_id: int, *, word: str, by: User | None) -> None:
    row = keys.set_key_paused(key_id, paused=word == "paused", by=by)
    if row is not None:
        audit.record(by, row, word)
        for queue in keys.queues_of(key=key_id):
            live.touch(f"queue:{queue}", "queues", "jobs")
            hooks.available(queue)


@transactions.retried
def _set_owner_paused(owner: User, *, paused: bool, by: User | None) -> bool:
    queues = keys.queues_of(owner=owner.pk)
    if not lane_queries.set_owner_paused(owner, paused=paused, by=by):
        return False
    audit.record(by, owner, f"jobs {'paused' if paused else 'resumed'}")
    event_type = "owner.paused" if paused else "owner.resumed"
    events.changed(event_type, f"owner/{owner.pk}", by=by, owner=owner.get_username())
    hooks.available(*lane_queries.keep_paused())
    live.touch("queues", "jobs", *(f"queue:{queue}" for queue in queues))
    return True


def _locked(queue: str, **more: bool) -> Queue:
    return existing(None if "\x00" in queue else keys.lock_queue(queue, **more), UnknownQueue(queue=queue))


def _changed(row: Queue, line: str, *, by: User | None) -> None:
    """Log a change of a locked queue; its pages show it, and who waits for its jobs looks again."""
    audit.record(by, row, line)
    live.touch(f"queue:{row.pk}", "queues")
    hooks.available(row.pk)


def _check_priority(priority: int, kind: Kind | None, *, by: User) -> None:
    highest: int = settings.JOBFARM["MEMBER_PRIORITY"]
    if kind is not None:
        highest = max(highest, kind.priority)
    if priority > highest and not reads.has_right(by, RAISE):
        raise PriorityNotAllowed(right=RAISE, priority=priority, highest=highest, what=_subject(kind))


def _check_queue(queue: str, kind: Kind | None, *, by: User) -> None:
    if kind is not None and is_of_model(queue, kind_queue=kind.queue):
        return
    allowed = [*([kind.queue] if kind else []), *settings.JOBFARM["MEMBER_QUEUES"]]
    if not {queue, ANY_QUEUE} & {*allowed} and not reads.has_right(by, CHOOSE):
        listed = ", ".join(dict.fromkeys(allowed)) or "its kind's own"
        raise QueueChoiceNotAllowed(right=CHOOSE, queue=queue, allowed=listed, what=_subject(kind))


def _check_range(value: int | str) -> None:
    try:
        number = int(value)
    except ValueError:
        number = 1000
    if not -100 <= number <= 100:
        raise InvalidValue(field="priority", why=f"a whole number from -100 to 100, got {value!r}")


def _subject(kind: Kind | None) -> str:
    return f"a job of the kind {kind.name}" if kind else "a job of any kind"
