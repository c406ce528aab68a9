"""A job to be submitted, and what is looked at before one of several is stored."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from django.contrib.auth.models import Group, User

from jobs.domain.bounds import check_values
from jobs.domain.kinds import Kind
from jobs.errors import JobsError, NotAMember, UnknownQueue
from jobs.operations import queues, quotas
from jobs.queries import keys, reads

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)  # frozen, it takes twice as long to make, and bulks make thousands
class NewJob:
    """A job to submit. What is None comes from its kind. Times are aware; `timeout_s` is in seconds.

    `limit_count` is how many tokens of its kind's limit this one takes, where the kind's own number does not fit.
    `files` are its input files: the id of an upload (`operations.upload`) by the name that its worker asks for, at
    most 16.
    `callback_url` gets its events (docs/outbox.md), if the farm allows that host. `token_id` is the API token that it
    comes with; `may_wait`: where a budget has no room for it now, it is due when the budget has.
    `requires` and `prefers` are conditions on its worker's labels, such as `{"vram": ">=16", "region": ["home",
    "lab"]}` (docs/labels.md); what its kind requires is required too, but for labels that the job names.
    """

    kind: str
    payload: Any
    queue: str | None = None
    priority: int | None = None
    run_at: datetime | None = None
    expires_at: datetime | None = None
    unique_key: str | None = None
    max_attempts: int | None = None
    timeout_s: float | None = None
    owner: User | None = None
    group: Group | None = None
    retry_of: int | None = None
    limit_count: float | None = None
    files: Mapping[str, str | UUID] | None = None
    callback_url: str | None = None
    requires: Mapping[str, Any] | None = None
    prefers: Mapping[str, Any] | None = None
    token_id: int | None = None
    may_wait: bool = False


def for_each(new_jobs: Sequence[NewJob], function: Callable[[NewJob], T]) -> list[T]:
    """What `function` makes of each; where it refuses one of several, the refusal says which."""
    done: list[T] = []
    try:
        done.extend(function(new) for new in new_jobs)
    except JobsError as refusal:
        if len(new_jobs) > 1:
            refusal.of_entry("jobs", len(done))
        raise
    return done


def check_new(new: NewJob, named: dict[str, Kind]) -> None:
    """Raise for what is wrong with this one alone; its kind is put into `named`."""
    if new.kind not in named:
        named[new.kind] = queues.kind_of(new.kind)
    check_values(new)
    quotas.check_limit_count(named[new.kind], new.limit_count)


def check_queues(new_jobs: Sequence[NewJob]) -> None:
    """Raise UnknownQueue for the first queue that nobody named yet."""
    requested = {new.queue for new in new_jobs if new.queue is not None}
    for queue in sorted(requested - (keys.known_queues(requested) if requested else set())):
        raise UnknownQueue(queue=queue)


def check_groups(new_jobs: Sequence[NewJob]) -> None:
    """Raise NotAMember where an owner is not in the group."""
    for owner, group in {(new.owner, new.group) for new in new_jobs if new.owner and new.group}:
        if not reads.is_operator(owner) and not owner.groups.filter(pk=group.pk).exists():
            raise NotAMember
