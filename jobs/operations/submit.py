"""Submitting jobs: one, many, and one that ended once more."""

import random
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.db.models.base import ModelState

from core import audit
from jobs.domain import files as names
from jobs.domain import labels as domain_labels
from jobs.domain import payloads
from jobs.domain.bounds import check_values
from jobs.domain.kinds import Kind
from jobs.domain.states import ENDED, Status
from jobs.errors import AlreadyRetried, NotEnded, NotFound, NotUnique
from jobs.models import Job, Requirement
from jobs.operations import events, hooks, inputs, labels, metering, queues, quotas
from jobs.operations.new_jobs import NewJob, check_groups, check_new, check_queues, for_each
from jobs.queries import bulks, moves, reads, submits
from jobs.queries.submits import Stored, Twin
from observing import traces
from postgres import transactions
from scheduling import context

_RNG = random.SystemRandom()
# A job's columns as they are before anybody has claimed it, and what a row to store has beside a job's columns.
_FRESH = dict.fromkeys(field.attname for field in Job._meta.concrete_fields) | {
    "status": Status.PENDING.value,
    "attempt": 0,
    "failures": 0,
    "releases": 0,
    "unconfirmed": 0,
    "fence": 0,
    "confirmed_fence": 0,
    "next_seq": 0,
    "output_bytes": 0,
    "earlier_output_bytes": 0,
    "is_metered": False,
}
_CHOICES = ("queue", "priority", "run_at", "expires_at", "unique_key", "max_attempts", "timeout_s")
_OF_KIND = (*("queue", "priority", "expires_s", "max_attempts", "timeout_s"), *("retry_when_lost", "retry_on_timeout"))
_BESIDE = ("payload", "traceparent", "expires_s", "limit_wait_s", "files", "wanted", "chooses", "may_wait")


def submit(
    kind: str,
    payload: Any,
    *,
    owner: User | None = None,
    group: Group | None = None,
    queue: str | None = None,
    priority: int | None = None,
    run_at: datetime | None = None,
    expires_at: datetime | None = None,
    unique_key: str | None = None,
    max_attempts: int | None = None,
    timeout_s: float | None = None,
    limit_count: float | None = None,
    files: Mapping[str, str | UUID] | None = None,
    callback_url: str | None = None,
    requires: Mapping[str, Any] | None = None,
    prefers: Mapping[str, Any] | None = None,
    token_id: int | None = None,
    may_wait: bool = False,
    by: User | None = None,
) -> Job:
    """Put a job into the table, in the caller's transaction if there is one (DESIGN promise 9), and return it.

    What is None comes from its kind, as in NewJob. Raises UnknownKind, UnknownQueue, InvalidJson, PayloadTooLarge,
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
    new = NewJob(
        kind=kind, payload=payload, owner=owner, group=group, queue=queue, priority=priority, run_at=run_at,
        expires_at=expires_at, unique_key=unique_key, max_attempts=max_attempts, timeout_s=timeout_s,
        limit_count=limit_count, files=files, callback_url=callback_url, requires=requires, prefers=prefers,
        token_id=token_id, may_wait=may_wait,
    )  # fmt: skip
    [job] = submit_many([new], by=by)
    if isinstance(job, NotUnique):
        raise job
    return job


def submit_many(new_jobs: Sequence[NewJob], *, by: User | None = None) -> list[Job | NotUnique]:
    """Put many jobs into the table in one statement: an answer for each, in order.

    A job that has a twin is answered by NotUnique and left out; any other refusal (see `submit`) is raised before
    anything is stored.
    """
    if not new_jobs:
        return []
    named: dict[str, Kind] = {}
    for_each(new_jobs, lambda new: check_new(new, named))
    check_queues(new_jobs)
    check_groups(new_jobs)
    if by is not None:
        queues.check_submits(new_jobs, named, by=by)
    with traces.span("submit", kind="producer", jobs=len(new_jobs)):
        rows = _rows(new_jobs, named)
        quotas.admit(rows)
        is_plain = _is_one_statement(rows) and new_jobs[0].callback_url is None
        put = _put if is_plain else transactions.retried(_put)
        return put(new_jobs, rows, by)


def check_submit(
    kind: str,
    *,
    owner: User | None,
    queue: str | None,
    priority: int | None,
    requires: Mapping[str, Any] | None = None,
    prefers: Mapping[str, Any] | None = None,
    by: User | None = None,
) -> None:
    """Raise what `submit` would raise for a job of this kind, queue, priority and conditions on labels, whatever its
    payload, the tokens of its limit and its twins. Stores nothing: for what submits jobs later, to be checked when it
    is written down."""
    new = NewJob(kind=kind, payload=None, owner=owner, queue=queue, priority=priority)
    named = {kind: queues.kind_of(kind)}
    check_values(new)
    domain_labels.requirement(requires=requires, prefers=prefers, usual=named[kind].requires)
    check_queues([new])
    check_groups([new])
    if by is not None:
        queues.check_submits([new], named, by=by)


def check_payload(payload: Any) -> None:
    """Raise InvalidJson or PayloadTooLarge for what no job can have as its payload."""
    payloads.encoded(payload, limit_bytes=settings.JOBFARM["PAYLOAD_BYTES"], subject="payload")


def retry(job_id: int, *, by: User | None, once: bool = False) -> Job:
    """Retry an ended job: submit it again, as a new job that points at it; history never changes.

    `once` is for pages, where a button is pressed twice: AlreadyRetried where another job retries it, unless that was
    canceled unbegun.
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
    if once and not bulks.lock_unretried([job.pk]):
        raise AlreadyRetried
    return submit_again(job, by=by)


@transactions.retried
def submit_again(job: Job, *, by: User | None, run_at: datetime | None = None) -> Job:
    """A new job like this ended one, which points at it; the caller knows that `by` may do so. Raises as `retry`."""
    again = {name: getattr(job, name) for name in ("queue", "priority", "unique_key", "max_attempts", "timeout_s")}
    own = names.uploads_of(job.body.inputs or ())
    new = NewJob(
        kind=job.kind, payload=job.body.payload, retry_of=job.pk, run_at=run_at, files=own, **again, **_labels(job)
    )
    kind = queues.kind_of(job.kind)
    whose: dict[str, Any] = {"owner_id": job.owner_id, "group_id": job.group_id, "token_id": job.token_id}
    count = job.limit_count if job.limit_name == kind.limit else None
    whose |= quotas.limit_columns(kind, owner_id=job.owner_id, count=count)
    row = _rows([new], {new.kind: kind})[0] | whose
    quotas.admit([row])
    [stored] = _stored([row], inputs.lock([(None, row["files"])], by=None))
    if isinstance(stored, NotUnique):
        raise stored
    _announce([new], [stored])
    hooks.changed([job.pk])
    hooks.retried(stored, retry_of=job.pk)
    audit.record(by, job, f"retried as job {stored.pk}")
    return stored


@transactions.retried
def clone(job_id: int, *, by: User) -> Job:
    """A new job of `by` with the kind, payload, files, queue, priority, group, bounds and requirements of this one,
    whatever its status.

    Not its `unique_key`, nor its times. Raises NotFound for a job that `by` may not see, else as `submit`; in the
    group only where `by` is a member.
    """
    job = reads.visible_to(by).select_related("body", "group").filter(pk=job_id).first()
    if job is None:
        raise NotFound
    same = {name: getattr(job, name) for name in ("queue", "priority", "max_attempts", "timeout_s")}
    is_member = job.group is not None and by.groups.filter(pk=job.group.pk).exists()
    group = job.group if is_member else None
    own = names.uploads_of(job.body.inputs or ())
    made = submit(job.kind, job.body.payload, owner=by, group=group, by=by, files=own, **same, **_labels(job))
    audit.record(by, made, f"cloned from job {job.pk}")
    return made


def _labels(job: Job) -> dict[str, Any]:
    one = job.requirement
    return {} if one is None else {"requires": one.requires, "prefers": one.prefers}


def _put(new_jobs: Sequence[NewJob], rows: Sequence[dict[str, Any]], by: User | None) -> list[Job | NotUnique]:
    locked = inputs.lock(((by or new.owner, row["files"]) for new, row in zip(new_jobs, rows, strict=True)), by=by)
    # The copies become the jobs' own, and this may be done again.
    stored = _stored([row.copy() for row in rows], locked)
    _announce(new_jobs, stored)
    pairs = zip(new_jobs, stored, strict=True)
    events.call_back((new.callback_url, new.owner, job.pk) for new, job in pairs if isinstance(job, Job))
    return stored


def _rows(new_jobs: Sequence[NewJob], named: Mapping[str, Kind]) -> list[dict[str, Any]]:
    """Their columns, and what is not one of the job's own: `_BESIDE`."""
    limit_bytes, traceparent = settings.JOBFARM["PAYLOAD_BYTES"], traces.current()
    usual = {name: _usual(kind) | {"traceparent": traceparent} for name, kind in named.items()}

    def row_of(new: NewJob) -> dict[str, Any]:
        row = usual[new.kind].copy()
        row["payload"] = payloads.encoded(new.payload, limit_bytes=limit_bytes, subject="payload")
        _apply_choices(row, new, named[new.kind])
        return row

    return for_each(new_jobs, row_of)


def _usual(kind: Kind) -> dict[str, Any]:
    """The row of a job that names nothing but this kind."""
    common = {name: getattr(kind, name) for name in _OF_KIND}
    beside = {"limit_wait_s": None, "files": None, "wanted": None, "chooses": False, "may_wait": False}
    return _FRESH | {"kind": kind.name} | beside | common


def _apply_choices(row: dict[str, Any], new: NewJob, kind: Kind) -> None:
    """Write into the usual row what this job chooses."""
    for name in _CHOICES:
        if (chosen := getattr(new, name)) is not None:
            row[name] = chosen
    row["owner_id"] = None if new.owner is None else new.owner.pk
    row["group_id"] = None if new.group is None else new.group.pk
    row["retry_of_id"], row["token_id"], row["may_wait"] = new.retry_of, new.token_id, new.may_wait
    row["files"] = names.references(new.files) if new.files else None
    if new.requires or new.prefers or kind.requires:
        row["wanted"] = domain_labels.requirement(requires=new.requires, prefers=new.prefers, usual=kind.requires)
        row["chooses"] = bool(row["wanted"] and (row["wanted"].prefers or row["wanted"].requires != kind.requires))
    if kind.limit is not None:
        row |= quotas.limit_columns(kind, owner_id=row["owner_id"], count=new.limit_count)


def _stored(rows: Sequence[dict[str, Any]], locked: Mapping[UUID, Any]) -> list[Job | NotUnique]:
    """Store them, and return them in their order. One with a twin gives back what was reserved for it."""
    _intern(rows)
    quotas.reserve(rows, rng=_RNG)
    admission = metering.admit(rows)
    references = [row["files"] for row in rows] if locked else []
    answers = [submits.one(rows[0])] if len(rows) == 1 else submits.many(rows)
    stored = [_job(row, new) for row, new in zip(rows, answers, strict=True)]
    quotas.give_back(row for row, job in zip(rows, stored, strict=True) if isinstance(job, NotUnique))
    if admission is not None:
        admission.keep([job.pk if isinstance(job, Job) else None for job in stored])
    if locked:
        pairs = zip(stored, references, strict=True)
        inputs.keep(((job.pk, named) for job, named in pairs if isinstance(job, Job)), locked)
    if (running := context.current()) is not None:
        moves.keep_origin([job.pk for job in stored if isinstance(job, Job)], function_id=running.id)
    return stored


def _intern(rows: Sequence[dict[str, Any]]) -> None:
    """Write into rows that require or prefer something which set that is."""
    wanted = {row["wanted"].text: row["wanted"] for row in rows if row["wanted"] is not None}
    chosen = {(row["owner_id"], row["wanted"].text) for row in rows if row["chooses"] and row["owner_id"]}
    ids = labels.ids_of(wanted.values(), chosen=chosen) if wanted else {}
    for row in rows:
        if row["wanted"] is not None:
            row["requirement_id"] = ids[row["wanted"].text]


def _is_one_statement(rows: Sequence[dict[str, Any]]) -> bool:
    """Whether storing them is a single write: that is a transaction by itself, without two more round trips."""
    [row, *others] = rows
    is_plain = not (row["limit_name"] or row["files"] or row["wanted"])
    return not others and is_plain and not context.current() and not metering.concerns(rows)


def _job(row: dict[str, Any], new: Stored | Twin) -> Job | NotUnique:
    """The job as it was stored: what was asked for, and what the database added. It is not read back.

    The row becomes the job's own dictionary and is not copied: a bulk makes thousands of them.
    """
    if isinstance(new, Twin):
        return NotUnique(job=new.id)
    wanted = row["wanted"]
    for name in _BESIDE:
        del row[name]
    row |= new._asdict()
    row["_state"] = state = ModelState()
    state.adding, state.db = False, "default"
    # What unpickling does too: of a bulk, a quarter of the time went into Model.__init__.
    job = Job.__new__(Job)
    job.__dict__ = row
    if wanted is not None:
        job.requirement = Requirement(
            pk=row["requirement_id"], requires=dict(wanted.requires), prefers=dict(wanted.prefers)
        )
    return job


def _announce(new_jobs: Sequence[NewJob], stored: Sequence[Job | NotUnique]) -> None:
    pairs = [(new, job) for new, job in zip(new_jobs, stored, strict=True) if isinstance(job, Job)]
    due = {(job.queue, job.run_at if new.run_at or job.limit_until or job.is_metered else None) for new, job in pairs}
    head_start = timedelta(seconds=settings.JOBFARM["HEAD_START_S"])
    due |= {(job.queue, job.run_at + head_start) for new, job in pairs if new.prefers}
    if pairs:
        hooks.submitted(due)
