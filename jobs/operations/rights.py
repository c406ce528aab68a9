"""Who may give which priority, and choose another queue than the kind's own. Asked for people alone: code of the site
submits as it likes (docs/adr/0055)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from django.conf import settings
from django.contrib.auth.models import User

from jobs.domain.bulks import BulkAction
from jobs.domain.kinds import Kind
from jobs.errors import PriorityNotAllowed, QueueChoiceNotAllowed, UnknownKind
from jobs.models import Job
from jobs.operations import lookups
from jobs.queries import reads

RAISE: Final = "jobs.raise_priority"
CHOOSE: Final = "jobs.choose_queue"
ANY_QUEUE: Final = "*"


class Requested(Protocol):
    """The choices of a new job; None: its kind's."""

    @property
    def kind(self) -> str: ...
    @property
    def queue(self) -> str | None: ...
    @property
    def priority(self) -> int | None: ...


def check_submits(new_jobs: Sequence[Requested], named: Mapping[str, Kind], *, by: User) -> None:
    """Raise PriorityNotAllowed or QueueChoiceNotAllowed if one of these jobs takes a right that `by` does not have."""
    for kind, queue, priority in {(new.kind, new.queue, new.priority) for new in new_jobs}:
        _check_priority(priority, named[kind], by=by)
        _check_queue(queue, named[kind], by=by)


def check_retry(job: Job, *, by: User) -> None:
    """Raise as `check_submits` for a new job with the queue and the priority of this one. Raises UnknownKind."""
    kind = lookups.kind(job.kind)
    _check_priority(job.priority, kind, by=by)
    _check_queue(job.queue, kind, by=by)


def check_bulk(action: BulkAction, value: str, *, kind: str, by: User) -> None:
    """Raise as `check_submits` for giving `value` to all jobs of this kind; of any kind if it is empty."""
    if action is BulkAction.PRIORITY:
        _check_priority(int(value), _known(kind), by=by)
    elif action is BulkAction.QUEUE:
        _check_queue(value, _known(kind), by=by)


def _known(kind: str) -> Kind | None:
    try:
        return lookups.kind(kind) if kind else None
    except UnknownKind:  # its jobs are still there
        return None


def _check_priority(priority: int | None, kind: Kind | None, *, by: User) -> None:
    highest: int = settings.JOBFARM["MEMBER_PRIORITY"]
    if kind is not None:
        highest = max(highest, kind.priority)
    if priority is not None and priority > highest and not reads.has_right(by, RAISE):
        raise PriorityNotAllowed(right=RAISE, priority=priority, highest=highest, what=_subject(kind))


def _check_queue(queue: str | None, kind: Kind | None, *, by: User) -> None:
    allowed = [*([kind.queue] if kind else []), *settings.JOBFARM["MEMBER_QUEUES"]]
    if queue is not None and not {queue, ANY_QUEUE} & {*allowed} and not reads.has_right(by, CHOOSE):
        raise QueueChoiceNotAllowed(right=CHOOSE, queue=queue, allowed=_listed(allowed), what=_subject(kind))


def _subject(kind: Kind | None) -> str:
    return f"a job of the kind {kind.name}" if kind else "a job of any kind"


def _listed(queues: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(queues)) or "its kind's own"
