"""What may be asked of a new job, and how the record that is stored comes of it and of its kind."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypedDict
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import Group, User

from core.large_json import Path
from jobs import registry
from jobs.domain import files, flows, labels, payloads, records
from jobs.domain.kinds import Kind
from jobs.domain.records import JobRecord, KeyScope
from jobs.errors import InvalidValue, JobsError, NotAMember, UnknownQueue
from jobs.kinds import DECLARED
from jobs.operations import queues, quotas
from jobs.queries import keys, reads
from postgres import arrays


class JobOptions(TypedDict, total=False):
    """The options of a new job. What is None, or left out, comes from its kind.

    Times are aware; `timeout_s` is in seconds. `limit_count` is how many tokens of its kind's limit this one takes,
    where the kind's own number does not fit. `concurrency_key` takes the place of what its kind makes of the payload.
    `files` are its input files: the id of an upload (`operations.upload`) by the name that its worker asks for, at
    most 16; those that `places` names are parts of the payload besides, and belong there.
    `callback_url` gets its events (docs/outbox.md), if the farm allows that host. `token_id` is the API token that it
    comes with, and without `may_cancel` it replaces what came with that token alone; `may_wait`: where a budget has no
    room for it now, it is due when the budget has.
    `on_conflict` is for a `unique_key` that a living job has: "refuse" (without it), "replace" (that one, if no worker
    has begun it, becomes this one), "after" (the same, and one that was begun is waited for: this one starts when it
    has ended, however it did). `debounce`, such as `{"quiet": 10, "at_most": 120}`, is "after" for a job that runs once
    none like it came for 10 s, at the latest 120 s after the first.
    `requires` and `prefers` are conditions on its worker's labels, such as `{"vram": ">=16", "region": ["home",
    "lab"]}` (docs/labels.md); what its kind requires is required too, but for labels that the job names.
    `prefers_worker`, by its id, gets one that names none first.
    `after` are jobs that it starts after, by their ids or by the names (`name`) of others of the same call: once all of
    them have succeeded, or with `when="ended"` however they ended (docs/flows.md).
    Without `keep_content` what it was given and gives is deleted minutes after its end, as where its kind says so.
    `tags` are up to 10 words of 1 to 64 characters that it is found by.
    """

    owner: User | None
    group: Group | None
    queue: str | None
    priority: int | None
    run_at: datetime | None
    expires_at: datetime | None
    unique_key: str | None
    on_conflict: str | None
    debounce: Mapping[str, float] | None
    concurrency_key: str | None
    max_attempts: int | None
    timeout_s: float | None
    limit_count: float | None
    files: Mapping[str, str | UUID] | None
    places: Mapping[str, Sequence[Path]] | None
    callback_url: str | None
    requires: Mapping[str, Any] | None
    prefers: Mapping[str, Any] | None
    prefers_worker: int | None
    tags: Iterable[str] | None
    token_id: int | None
    may_wait: bool | None
    may_cancel: bool | None
    keep_content: bool | None
    name: str | None
    after: Sequence[int | str] | None
    when: str | None


class NewJob(JobOptions):
    """A job to submit, with any of JobOptions."""

    kind: str
    payload: Any


_NAMES: Final = NewJob.__annotations__.keys()
# What stands in the record as it was asked for.
_NOT_AS_IT_IS: Final = {"files", "tags", "keep_content", "on_conflict", "debounce", "name", "after"}
_CHOICES: Final = JobOptions.__annotations__.keys() & set(JobRecord._fields) - _NOT_AS_IT_IS
# A bulk names little more, and to ask each of its jobs for all else took a fifth of it.
_OFTEN: Final = {"kind", "payload", "owner", "group", "queue", "token_id"}
_UNCHECKED: Final = {"payload", "owner_id", "group_id", "queue", "token_id"}
_OF_KIND: Final = (
    *("queue", "priority", "expires_s", "max_attempts", "timeout_s"),
    *("retry_when_lost", "retry_on_timeout"),
)  # fmt: skip


def recorded(
    new_jobs: Sequence[NewJob], kinds: dict[str, Kind], *, traceparent: str | None = None, is_recent: bool = False
) -> list[JobRecord]:
    """The records of these jobs. Their kinds are put into `kinds`, as this process remembers them if `is_recent`.

    Raises what is wrong with one alone; of one among several the refusal says which.
    """
    made: list[JobRecord] = []
    usual: dict[str, JobRecord] = {}
    try:
        for new in new_jobs:
            if (name := new["kind"]) not in usual:
                kinds[name], version = queues.recent_kind(name) if is_recent else (queues.kind_of(name), None)
                usual[name] = _usual(kinds[name], traceparent, version)
            made.append(_record(new, kinds[name], usual[name]))
    except JobsError as refusal:
        if len(new_jobs) > 1:
            refusal.of_entry("jobs", len(made))
        raise
    is_flow = any(new.get("after") or new.get("name") or new.get("when") for new in new_jobs)
    return _in_order(new_jobs, made) if is_flow else made


def _in_order(new_jobs: Sequence[NewJob], made: Sequence[JobRecord]) -> list[JobRecord]:
    """The records with what they come after."""
    names = [None if new.get("name") is None else flows.checked_name(new["name"] or "") for new in new_jobs]
    named = {place: flows.after(new["after"] or ()) for place, new in enumerate(new_jobs) if new.get("after")}
    if any(new.get("when") and place not in named for place, new in enumerate(new_jobs)):
        raise InvalidValue(field="when", why="it is about `after`, and there is none")
    places = flows.places(names, named)
    return [
        one._replace(
            name=names[place], condition=flows.condition(new.get("when")), after_places=places.get(place, ()),
            after=tuple(job for job in named.get(place, ()) if isinstance(job, int)),
        )
        for place, (new, one) in enumerate(zip(new_jobs, made, strict=True))
    ]  # fmt: skip


def check(new_jobs: Sequence[NewJob], made: Sequence[JobRecord], kinds: Mapping[str, Kind], *, by: User | None) -> None:
    """Raise UnknownQueue for a queue that nobody named yet, NotAMember where an owner is not in the group, and
    PriorityNotAllowed or QueueChoiceNotAllowed for what takes a right that `by` does not have."""
    queue_names = {new.queue for new in made if new.queue != kinds[new.kind].queue and not new.checks_queue}
    for queue in sorted(queue_names - keys.known_queues(queue_names)) if queue_names else ():
        raise UnknownQueue(queue=queue)
    for owner, group in {(new.get("owner"), group) for new in new_jobs if (group := new.get("group"))}:
        if owner and not reads.is_operator(owner) and not owner.groups.filter(pk=group.pk).exists():
            raise NotAMember
    if by is not None:
        usual = {(kind.name, kind.queue, kind.priority) for kind in kinds.values()}
        for kind, queue, priority in {(new.kind, new.queue, new.priority) for new in made} - usual:
            queues.check_rights(kinds[kind], queue=queue, priority=priority, by=by)
        for new, one in zip(new_jobs, made, strict=True):
            if one.kind in registry.CHECKS:
                registry.CHECKS[one.kind](new["payload"], one.queue, by, one.token_id)


def _usual(kind: Kind, traceparent: str | None, version: str | None) -> JobRecord:
    """The record of a job that names nothing but this kind."""
    of_kind: dict[str, Any] = {name: getattr(kind, name) for name in _OF_KIND}
    if kind.limit is not None:
        of_kind |= {"limit_name": kind.limit, "limit_count": kind.limit_count}
    usual = JobRecord(kind=kind.name, traceparent=traceparent, kind_version=version, **of_kind)
    records.check(usual)
    return usual


def _record(new: NewJob, kind: Kind, usual: JobRecord) -> JobRecord:
    if not new.keys() <= _NAMES:
        raise TypeError(f"a new job has no option {min(new.keys() - _NAMES)!r}")
    values: dict[str, Any] = {name: value for name, value in new.items() if value is not None and name in _CHOICES}
    owner, group = new.get("owner"), new.get("group")
    values |= {"owner_id": owner and owner.id, "group_id": group and group.id}
    if kind.requires or kind.redact or not kind.keep_content or not new.keys() <= _OFTEN:
        values |= _seldom(new, kind)
    if (key := new.get("concurrency_key") or kind.concurrency_key_of(new["payload"])) is not None:
        scoped = {"kind": kind.name, "queue": ""} if kind.concurrency else {"queue": values.get("queue", kind.queue)}
        bound = kind.concurrency if kind.name in DECLARED else None
        values |= {"concurrency_key": key, "key_scope": KeyScope(**{"kind": ""} | scoped, bound=bound)}
    if kind.limit is not None:
        values["limit_key"] = kind.key_for(values.get("owner_id"))
    limit_bytes: int = settings.JOBFARM["PAYLOAD_BYTES"]
    values["payload"] = payloads.encoded(new["payload"], limit_bytes=limit_bytes, subject="payload")
    made = usual._replace(**values)
    if not values.keys() <= _UNCHECKED:  # else all that is looked at is its kind's
        records.check(made)
    if "limit_count" in values:
        quotas.check_limit_count(kind, made.limit_count)
    return made


def _seldom(new: NewJob, kind: Kind) -> dict[str, Any]:
    """What most jobs do not have."""
    values: dict[str, Any] = {}
    times, is_kept = new.get("debounce"), kind.keep_content and new.get("keep_content") is not False
    if times is not None or new.get("on_conflict") is not None:
        debounce = values["debounce"] = None if times is None else records.Debounce.of(times)
        values["on_conflict"] = records.on_conflict(new.get("on_conflict"), is_debounced=debounce is not None)
    if not is_kept or kind.redact:
        values |= {"keep_content": is_kept, "redact": kind.redact, "is_metered": True}
    if named := new.get("files"):
        values["files"] = files.references(named, parts=len(new.get("places") or ()))
    if words := new.get("tags"):
        values["tags"] = arrays.literal(records.checked_tags(words))
    if kind.requires or new.get("requires") or new.get("prefers") or new.get("prefers_worker"):
        values |= _wanted(new, kind)
    return values


def _wanted(new: NewJob, kind: Kind) -> dict[str, Any]:
    wanted = labels.requirement(
        requires=new.get("requires"), prefers=new.get("prefers"), usual=kind.requires, worker=new.get("prefers_worker")
    )  # fmt: skip
    is_choice = wanted is not None and (labels.chosen(wanted.prefers) or wanted.requires != kind.requires)
    return {"wanted": wanted, "is_choice": bool(is_choice)}
