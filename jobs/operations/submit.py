"""Submitting jobs: one, many, and one that ended once more."""

import random
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Final, Unpack

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from core import audit
from core.large_json import Cut
from core.recent import Outdated
from core.refusal import Refusal, existing, raised
from jobs import registry
from jobs.domain import files as names, payloads
from jobs.domain.hooks import Admission
from jobs.domain.kinds import Kind
from jobs.domain.labels import chosen
from jobs.domain.records import COLUMNS, JobRecord
from jobs.domain.states import ENDED, Status
from jobs.errors import AlreadyRetried, NotEnded, NotFound, NotUnique
from jobs.models import Job, Live, keeps_content
from jobs.operations import content, edges, events, hooks, inputs, keys, labels, queues, quotas
from jobs.operations.new_jobs import JobOptions, NewJob, check, recorded
from jobs.queries import bulks, flows as flow_queries, moves, reads, submits
from jobs.queries.submits import Stored
from observing import traces
from postgres import transactions
from scheduling import context

_RNG: Final = random.SystemRandom()
_KNOWN: Final = [
    name for name in (field.attname for field in Job._meta.concrete_fields) if name in {*COLUMNS, *Stored._fields}
]
_SELDOM: Final = (
    *("limit_name", "files", "wanted", "key_scope", "tags", "on_conflict", "is_metered"),
    *edges.FIELDS,
)  # fmt: skip
_seldom_of: Final = attrgetter(*_SELDOM)
# What a live row begins with; an instance that is made of its keywords alone takes three times as long.
_OF_LIVE: Final = {field.attname: field.get_default() for field in Live._meta.concrete_fields}


def submit(kind: str, payload: Any, *, by: User | None = None, **options: Unpack[JobOptions]) -> Job:
    """Put a job into the table, in the caller's transaction if there is one, and return it.

    What is None comes from its kind, as in JobOptions. Raises UnknownKind, UnknownQueue, InvalidJson, PayloadTooLarge,
    InvalidValue, NotAMember, TooManyWaiting (of its owner, or in all; without an owner in all alone),
    TooManyRequirements, and NotUnique when a twin has not ended: a job of the same owner and kind with the same
    `unique_key`; its `job` is the twin's id.
    Jobs without an owner are the site's own and share one space of keys. `by` None is the site itself, which chooses
    queue and priority as it likes; for a person that raises PriorityNotAllowed and QueueChoiceNotAllowed beyond their
    rights. UnknownFile for one of `files` that is not there, or neither theirs nor of a job that they may see.

    A job whose kind names a limit reserves its tokens here, and is due when they have come in. Raises
    RateLimited where the limit lets nobody so far ahead, CountExceedsLimit where it never will, and what the meter
    refuses it with (docs/usage.md). How many jobs a person or a token may submit is for the callers to check
    (`jobs.http`): code of the site itself is not counted.
    """
    [stored] = store([NewJob(kind=kind, payload=payload, **options)], by=by)
    return job_of(stored)


def submit_many(new_jobs: Sequence[NewJob], *, by: User | None = None) -> list[int | NotUnique]:
    """Put many jobs into the table in one statement: the id of each, in order.

    A job that has a twin is answered by NotUnique and left out; any other refusal (see `submit`) is raised before
    anything is stored.
    """
    return [one if isinstance(one, NotUnique) else one.id for one in store(new_jobs, by=by)]


def store(new_jobs: Sequence[NewJob], *, by: User | None = None) -> list[Stored | NotUnique]:
    """`submit_many`, for who shows what was stored."""
    if not new_jobs:
        return []
    with traces.span("submit", kind="producer", jobs=len(new_jobs)):
        kinds: dict[str, Kind] = {}
        return _checked_and_stored(new_jobs, recorded(new_jobs, kinds, traceparent=traces.current()), kinds, by)


def store_recent(new: NewJob, *, by: User | None, versions: tuple[str, str] | None) -> Stored | NotUnique:
    """`store` for a job whose kind this process may remember, as its caller may have remembered the token and the
    person that it comes from: of these `versions`.

    Raises Outdated where one of these rows is another by now, or its queue is not there. Who is refused looks them up
    and asks `store`: no answer rests on what was remembered, but that the job is stored (docs/adr/0115).
    """
    with traces.span("submit", kind="producer", jobs=1):
        kinds: dict[str, Kind] = {}
        [record] = recorded([new], kinds, traceparent=traces.current(), is_recent=True)
        token, person = versions or (None, None)
        is_chosen = record.queue != kinds[record.kind].queue
        record = record._replace(token_version=token, person_version=person, checks_queue=is_chosen)
        [answer] = _checked_and_stored([new], [record], kinds, by)
        return answer


def _checked_and_stored(
    new_jobs: Sequence[NewJob], records: Sequence[JobRecord], kinds: dict[str, Kind], by: User | None
) -> list[Stored | NotUnique]:
    check(new_jobs, records, kinds, by=by)
    if _is_one_statement(new_jobs, records):
        quotas.admit(records)
        answer = submits.one(records[0])
        _announce([answer])
        return [answer]
    have = _had(records)
    if have & edges.FIELDS:
        edges.check(records, by=by)
    if "on_conflict" not in have:
        quotas.admit(records)
    if any(isinstance(new["payload"], Cut) for new in new_jobs):
        records = inputs.with_parts(new_jobs, records)
    try:
        return (_resolved if "on_conflict" in have else _stored)(new_jobs, records, kinds, by)
    except (Outdated, Refusal):
        inputs.let_go(records)
        raise


def store_child(new: NewJob, *, flow_id: int, traceparent: str | None) -> Stored:
    """Store a job of this flow, with the rights of its owner, for another one that runs. Raises as `submit`."""
    kinds: dict[str, Kind] = {}
    [record] = recorded([new], kinds, traceparent=traceparent)
    [stored] = _checked_and_stored([new], [record._replace(flow_id=flow_id)], kinds, new.get("owner"))
    return raised(stored)


def check_submit(kind: str, payload: Any = None, *, by: User | None = None, **options: Unpack[JobOptions]) -> None:
    """Raise what `submit` would raise for this job, whatever the tokens of its limit, its files and its twins.

    Stores nothing: for what submits jobs later, to be checked when it is written down.
    """
    kinds: dict[str, Kind] = {}
    new = [NewJob(kind=kind, payload=payload, **options)]
    check(new, recorded(new, kinds), kinds, by=by)


def check_payload(payload: Any) -> None:
    """Raise InvalidJson or PayloadTooLarge for what no job can have as its payload."""
    payloads.encoded(payload, limit_bytes=settings.JOBFARM["PAYLOAD_BYTES"], subject="payload")


@transactions.retried
def retry(job_id: int, *, by: User | None, once: bool = False) -> Job:
    """Retry an ended job: submit it again, as a new job that points at it. History never changes.

    `once` is for pages, where a button is pressed twice: AlreadyRetried where another job retries it, unless that was
    canceled unbegun. So it is for all in a flow, where another may have its place.
    `by` None is the system itself. Raises NotFound (also for a job that `by` may not see), NotAllowed, NotEnded, and
    NotUnique while a twin with the same `unique_key` lives, TooManyWaiting; of its kind's limit it takes anew, see
    `submit`. It keeps its input files (UnknownFile where one was deleted), queue and priority: PriorityNotAllowed and
    QueueChoiceNotAllowed where `by` could not submit it so.
    """
    job = reads.operable(job_id, by=by)
    if Status(job.status) not in ENDED:
        raise NotEnded
    if by is not None:
        queues.check_retry(job, by=by)
    if (once or job.flow_id is not None) and not bulks.lock_unretried([job.pk]):
        raise AlreadyRetried(job=existing(bulks.newest_try(job.pk), NotFound()))
    return submit_again(job, by=by)


@transactions.retried
def submit_again(job: Job, *, by: User | None, run_at: datetime | None = None) -> Job:
    """A new job like this ended one, which points at it; the caller knows that `by` may do so. Raises as `retry`.

    It begins with the checkpoint of one that did not succeed. In a flow it takes the place of that one, and what was
    canceled for its sake is submitted again with it.
    """
    return submit_all_again([job, *edges.canceled_for(job)], by=by, run_at=run_at)[0]


@transactions.retried
def submit_all_again(ended: Sequence[Job], *, by: User | None, run_at: datetime | None = None) -> list[Job]:
    """`submit_again` for several, in order of their places where they are of a flow; `run_at` is the first one's."""
    kinds: dict[str, Kind] = {}
    records = [_again(one, kinds, run_at=None if place else run_at) for place, one in enumerate(ended)]
    records = edges.again(ended, records)
    quotas.admit(records)
    stored = _decided(records, inputs.lock([(None, record.files) for record in records], by=None), kinds)
    new = [job_of(one) for one in stored]
    _announce(stored)
    hooks.changed([one.pk for one in ended])
    for one, again in zip(ended, new, strict=True):
        if one.checkpoint is not None and one.status != Status.SUCCESS:
            moves.inherit_checkpoint(again.pk, one.kept)
            if one.flow_id is not None:
                flow_queries.keep_waited(again.pk, of=one.pk)
        hooks.retried(again, retry_of=one.pk)
        audit.record(by, one, f"retried as job {again.pk}")
    return new


def _again(job: Job, kinds: dict[str, Kind], *, run_at: datetime | None) -> JobRecord:
    [same] = recorded([NewJob(**_same(job), run_at=run_at, unique_key=job.unique_key)], kinds)
    kind, whose = kinds[job.kind], {name: getattr(job, name) for name in ("owner_id", "group_id", "token_id")}
    limited: dict[str, Any] = {"limit_key": kind.key_for(job.owner_id)} if kind.limit else {}
    if kind.limit and job.limit_name == kind.limit:
        limited["limit_count"] = job.limit_count
    return same._replace(retry_of_id=job.pk, traceparent=traces.current(), **whose, **limited)


@transactions.retried
def clone(job_id: int, *, by: User) -> Job:
    """A new job of `by` with the kind, payload, files, queue, priority, group, bounds and requirements of this one,
    whatever its status.

    Not its `unique_key`, nor its times. Raises NotFound for a job that `by` may not see, else as `submit`; in the
    group only where `by` is a member.
    """
    job = existing(reads.visible_to(by).whole().select_related("group").filter(pk=job_id).first(), NotFound())
    is_member = job.group is not None and by.groups.filter(pk=job.group.pk).exists()
    [stored] = store([NewJob(**_same(job), owner=by, group=job.group if is_member else None)], by=by)
    made = job_of(stored)
    audit.record(by, made, f"cloned from job {job.pk}")
    return made


def _same(job: Job) -> NewJob:
    """What a job that is tried again or cloned has of this one in any case. Raises ContentNotKept."""
    content.check(job)
    wanted = job.requirement
    return NewJob(
        kind=job.kind, payload=job.payload, queue=job.queue, priority=job.priority,
        max_attempts=job.max_attempts, timeout_s=job.timeout_s, files=names.uploads_of(job.inputs or ()),
        requires=wanted and wanted.requires, prefers=wanted and chosen(wanted.prefers), tags=job.tags,
        concurrency_key=job.concurrency_key, places=names.places_of(job.inputs or ()) or None,
        keep_content=keeps_content(job),
    )  # fmt: skip


@transactions.retried
def _resolved(
    new_jobs: Sequence[NewJob], records: Sequence[JobRecord], kinds: Mapping[str, Kind], by: User | None
) -> list[Stored | NotUnique]:
    """As `_stored`, for jobs that do not all give way to the living ones which have their keys; all of them once more
    where a key was taken after they were placed."""
    for further_tries in reversed(range(submits.MOST_TRIES)):
        with transaction.atomic():
            places = keys.placed(records)
            quotas.admit(places.new)
            stored = [new_jobs[place] for place in places.stored]
            written = _stored(stored, [places.records[place] for place in places.stored], kinds, by, places)
            answers = places.answers(written)
            if not places.were_taken(answers) or not further_tries:
                break
            transaction.set_rollback(True)
    return answers


@transactions.retried
def _stored(
    new_jobs: Sequence[NewJob], records: Sequence[JobRecord], kinds: Mapping[str, Kind], by: User | None,
    places: keys.Places | None = None,
) -> list[Stored | NotUnique]:  # fmt: skip
    whose = ((by or new.get("owner"), record.files) for new, record in zip(new_jobs, records, strict=True))
    answers = _decided(records, inputs.lock(whose, by=by), kinds, places)
    _announce(answers)
    if places is not None:
        events.replaced(places.targets.values(), answers, listens=places.listens, by=by)
    those = zip(new_jobs, answers, strict=True)
    called = [(new["callback_url"], new.get("owner"), one) for new, one in those if new.get("callback_url")]
    if called:
        events.call_back((url, owner, one.id) for url, owner, one in called if isinstance(one, Stored))
    return answers


def _decided(
    records: Sequence[JobRecord], locked: inputs.Locked, kinds: Mapping[str, Kind],
    places: keys.Places | None = None,
) -> list[Stored | NotUnique]:  # fmt: skip
    """Store them as their limits, the meter and their keys let them. One with a twin gives back what was reserved for
    it."""
    have = _had(records)
    has_more = bool(have - {"limit_name"})
    records, admission = _admitted(_prepared(records, kinds, places, has_more=has_more))
    opened = edges.opened(records) if have & edges.FIELDS else None
    answers = (places.write if places else submits.many)(opened.records if opened else records)
    answers = opened.connect(answers) if opened else answers
    stored = [answer for answer in answers if isinstance(answer, Stored)]
    if has_more:
        submits.keep_tags(stored)
        content.note(stored)
        keys.cancel_overflow(stored, kinds)
    if len(stored) < len(answers):
        pairs = zip(records, answers, strict=True)
        quotas.give_back(record for record, answer in pairs if isinstance(answer, NotUnique))
    if admission is not None:
        admission.keep([answer.id if isinstance(answer, Stored) else None for answer in answers])
    if locked:
        inputs.keep(((one.id, one.record) for one in stored), locked)
    if (running := context.current()) is not None:
        moves.keep_origin([one.id for one in stored], function_id=running.id)
    return answers


def _prepared(
    records: Sequence[JobRecord], kinds: Mapping[str, Kind], places: keys.Places | None, *, has_more: bool
) -> Sequence[JobRecord]:
    """The records with the ids of what they name, and with what their limits reserved; an earlier job that becomes a
    new one gives back what it had reserved."""
    targets = () if places is None else places.targets.values()
    if targets:
        quotas.give_back(targets)
        events.meter_ended_waiting(targets)
    if has_more:
        records = keys.interned(labels.interned(records))
        keys.check_overflow(records, kinds, replaced=targets)
    return quotas.reserved(records, rng=_RNG)


def _is_one_statement(new_jobs: Sequence[NewJob], records: Sequence[JobRecord]) -> bool:
    """Whether storing them is a single write: that is a transaction by itself, without two more round trips."""
    new, meter = new_jobs[0], registry.meter()
    has_more = len(records) > 1 or new.get("callback_url") or isinstance(new["payload"], Cut) or _had(records)
    return not (has_more or context.current() or (meter is not None and meter.concerns(records)))


def _had(records: Sequence[JobRecord]) -> set[str]:
    """What any of these new jobs has of what most have not: what none has costs nothing."""
    have = [of_record for record in records if any(of_record := _seldom_of(record))]
    return {name for of_record in have for name, value in zip(_SELDOM, of_record, strict=True) if value}


def _admitted(new: Sequence[JobRecord]) -> tuple[Sequence[JobRecord], Admission | None]:
    """These new jobs as they are after the meter decided about them, and what it decided; None: it has nothing to
    decide. In the caller's transaction. Raises what the meter refuses them with."""
    meter = registry.meter()
    if meter is None or not meter.concerns(new):
        return new, None
    admission = meter.admit(new)
    decided = zip(new, admission.run_at, admission.is_metered, strict=True)
    return [
        one._replace(run_at=at or one.run_at, is_metered=one.is_metered or is_metered)
        for one, at, is_metered in decided
    ], admission


def job_of(stored: Stored | NotUnique) -> Job:
    """The job as it was stored: what was asked for, and what the database added. What else a job has, which is nothing
    yet, is read when it is asked for."""
    stored = raised(stored)
    columns = stored.record._asdict() | stored._asdict()
    job = Job.from_db("default", _KNOWN, [columns[name] for name in _KNOWN])
    columns["job_id"] = stored.id
    job.live = Live.from_db("default", [*_OF_LIVE], [columns.get(name, usual) for name, usual in _OF_LIVE.items()])
    return job


def _announce(answers: Sequence[Stored | NotUnique]) -> None:
    due: set[tuple[str, datetime | None]] = set()
    ids, replaced = list[int](), list[int]()
    for one in answers:
        if isinstance(one, NotUnique):
            continue
        (replaced if one.is_replaced else ids).append(one.id)
        if one.behind_id is None:
            is_later = one.record.run_at or one.limit_until
            due.add((one.record.queue, one.run_at if is_later else None))
            if one.record.wanted and one.record.wanted.prefers:
                due.add((one.record.queue, one.run_at + timedelta(seconds=settings.JOBFARM["HEAD_START_S"])))
    if ids or replaced:
        hooks.submitted(due, ids + replaced)
    if replaced:
        hooks.changed(replaced)
