"""Flows as a whole: started from templates, which are stored, named lists of jobs with placeholders (docs/flows.md),
gone on with by jobs that a running one submits for itself (docs/adr/0131), canceled and tried again."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Unpack, cast

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from core import audit
from core.large_json import Cut
from core.refusal import Refusal, existing, raised
from jobs.domain import flows as templates
from jobs.domain.flows import MOST_INTO, downstream
from jobs.domain.kinds import Kind
from jobs.domain.leases import Lease
from jobs.domain.states import ENDED, Status
from jobs.errors import (
    AlreadyRetried,
    ChildDiffers,
    InvalidValue,
    NotAllowed,
    NotEnded,
    NotFound,
    StepNotEnded,
    UnknownTemplate,
)
from jobs.models import Flow, FlowTemplate, Job, Worker, keeps_content
from jobs.operations import finish, inputs, queues, report, submit
from jobs.operations.edges import refusing_locked
from jobs.operations.new_jobs import JobOptions, NewJob, check, recorded
from jobs.queries import bulks, flows, moves, reads, reports
from jobs.queries.submits import Stored
from postgres import transactions

AT_ONCE: Final = 500  # canceled in one transaction
Jobs = Sequence[Mapping[str, Any]]


class SubmittedFlow(NamedTuple):
    """The id of a flow, and those of its jobs in the order of their template."""

    id: int
    jobs: list[int]


def submit_flow(
    template: str | Jobs, /, *, by: User | None = None, owner: User | None = None, **values: object
) -> SubmittedFlow:
    """Submit the jobs of a flow template, by its name or as a list of such jobs, all of them or none.

    `values` stand for its placeholders; of a stored one those that are not named have their defaults. Raises
    UnknownTemplate, InvalidValue for values that do not fit, and as `submit`: NotUnique too, where a `unique_key` of
    one of its jobs is a living job's.
    """
    stored = store_flow(template, values, by=by, owner=owner)
    flow_id = stored[0].record.flow_id
    assert flow_id is not None  # each of them has a name
    return SubmittedFlow(flow_id, [one.id for one in stored])


@transactions.retried
def store_flow(
    template: str | Jobs, values: Mapping[str, Any], *, by: User | None, **options: Unpack[JobOptions]
) -> list[Stored]:
    """`submit_flow`, for who shows what was stored; `options` are those of all its jobs."""
    with transaction.atomic():
        answers = submit.store([cast("NewJob", {**one, **options}) for one in jobs_of(template, values)], by=by)
        return [raised(one) for one in answers]


def jobs_of(template: str | Jobs, values: Mapping[str, Any]) -> list[Any]:
    """The jobs that a start with these values submits. Raises UnknownTemplate and InvalidValue."""
    if isinstance(template, str):
        row = existing(FlowTemplate.objects.filter(pk=template).first(), UnknownTemplate(template=template[:100]))
        jobs, placeholders = row.jobs, row.placeholders
    else:
        jobs, placeholders = template, dict.fromkeys(values)
    templates.check_template(jobs, placeholders)
    limit_bytes: int = settings.JOBFARM["PAYLOAD_BYTES"]
    filled = templates.filled_template(jobs, placeholders, values, limit_bytes=limit_bytes)
    return [{"payload": None, **one} for one in filled]


def check_template(jobs: Any, placeholders: Any) -> None:
    """Raise what could keep every start of such a template from making a flow: InvalidValue (a circle among it), and
    UnknownKind, UnknownQueue and the like. What placeholders stand for is not known then."""
    templates.check_template(jobs, placeholders)
    kinds: dict[str, Kind] = {}
    fixed = [{"payload": None, **job, "tags": [one for one in job.get("tags", ()) if "{{" not in one]} for job in jobs]
    check(fixed, recorded(fixed, kinds), kinds, by=None)  # type: ignore[arg-type]  # checked above


def check_start(template: Any, values: Any, *, by: User | None = None) -> None:
    """Raise what a start with these values would raise, as far as that can be known before."""
    kinds: dict[str, Kind] = {}
    new = jobs_of(template, values)
    check(new, recorded(new, kinds), kinds, by=by)


def submit_child(
    worker: Worker, job_id: int, lease: Lease, new: NewJob, *, position: int, outlives: bool = False
) -> int:
    """Submit a job for the one that `lease` holds, of its owner, group, token, trace and flow, and return its id.

    `position` counts from 0 in what the job submits: at a position where it has submitted one, in this attempt or an
    earlier one, nothing more is submitted, and that one is the answer. Raises ChildDiffers where that has another kind
    or payload. With `outlives` it goes on when the parent is canceled. Renews the lease.

    The rights are those of the owner: raises as `submit`, and LeaseLost, RowLocked.
    """
    if not isinstance(new["payload"], Cut):
        return _child(worker, job_id, lease, new, position=position, outlives=outlives)
    report.heartbeat(worker, job_id, lease)  # nobody else stores anything for its owner
    ahead = inputs.stored_ahead(
        [new["payload"]], owner_id=reports.owner_of(job_id),
        unless=lambda: flows.child(job_id, position) is not None,
    )  # fmt: skip
    with ahead:
        return _child(worker, job_id, lease, new, position=position, outlives=outlives)


def cancel(flow_id: int, *, by: User | None) -> int:
    """Cancel all jobs of a flow that have not ended and that `by` may act on (None: the system itself); how many.

    Raises NotFound for a flow of which `by` sees no job."""
    owner = _owner(flow_id, by=by)
    canceled = 0
    while ids := flows.living(flow_id, owner=owner)[:AT_ONCE]:
        canceled += finish.cancel_many(ids, by=by)
    if canceled:
        audit.record(by, Flow(pk=flow_id), f"canceled, {canceled:,} jobs")
    return canceled


def retry(flow_id: int, *, by: User | None, from_job: int | None = None) -> list[int]:
    """Try again, each in its place, the jobs of a flow that did not succeed by themselves and that `by` may act on, and
    what was canceled for their sake; the new jobs that try the former. One that is refused stays as it is, and the rest
    goes on. Raises NotFound, and as `submit.retry` where nothing else is left.

    `from_job`: that ended job instead, and all that came after it, however they ended; the new jobs, whoever comes
    first first. What comes before is kept. Raises StepNotEnded for one of them that waits or runs, AlreadyRetried where
    another job has that place by now, and NotAllowed for one that is not for `by` to act on.
    """
    if from_job is not None:
        return _retry_from(flow_id, from_job, by=by)
    again, refusals = list[int](), list[Refusal]()
    for job_id in flows.unhappy(flow_id, owner=_owner(flow_id, by=by)):
        try:
            again.append(submit.retry(job_id, by=by, once=True).pk)
        except AlreadyRetried:
            continue
        except Refusal as refusal:
            refusals.append(refusal)
    if refusals and not again:
        raise refusals[0]
    return again


@transactions.retried
@refusing_locked()
def _child(worker: Worker, job_id: int, lease: Lease, new: NewJob, *, position: int, outlives: bool) -> int:
    if not 0 <= position < MOST_INTO:
        raise InvalidValue(field="position", why=f"from 0 to {MOST_INTO - 1:,}, got {position}")
    # From here on no other call submits for this job. A heartbeat alone passes a locked row.
    moves.lock_held(worker, [(job_id, lease)])
    report.heartbeat(worker, job_id, lease)
    if (child := flows.child(job_id, position)) is not None:
        if (child.kind, child.payload) != (new["kind"], new["payload"]):
            raise ChildDiffers(job=child.pk, position=position)
        return child.pk
    parent = Job.objects.select_related("owner", "group", "content_deletion").get(pk=job_id)
    flow_id, depth = flows.of_parent(job_id)
    inherited: Any = {"owner": parent.owner, "group": parent.group, "token_id": parent.token_id, "may_wait": True}
    new = NewJob(**new, **inherited, keep_content=keeps_content(parent))
    stored = submit.store_child(new, flow_id=flow_id, traceparent=parent.traceparent)
    flows.adopt(stored.id, parent_id=job_id, position=position, depth=depth, outlives=outlives)
    return stored.id


@transactions.retried
def _retry_from(flow_id: int, first: int, *, by: User | None) -> list[int]:
    if (job := reads.operable(first, by=by)).flow_id != flow_id:
        raise NotFound
    if Status(job.status) not in ENDED:
        raise NotEnded
    after = flows.order(flow_id)
    ids = downstream(first, after)
    locked = bulks.lock_places([first, *ids])
    if others := {*flows.holders(flows.places([first, *ids]).values()).values()}.difference(ids):
        raise AlreadyRetried(job=min(others))
    for living in sorted({*ids} - locked):
        raise StepNotEnded(job=living)
    jobs = Job.objects.whole().in_bulk(ids)
    if by is not None:
        for one in jobs.values():
            if not reads.may_operate(by, one):
                raise NotAllowed
            queues.check_retry(one, by=by)
    return [one.pk for one in submit.submit_all_again([jobs[one] for one in ids], by=by)]


def _owner(flow_id: int, *, by: User | None) -> User | None:
    """Whose jobs alone `by` may act on; None: everybody's."""
    if by is None:
        return None
    if not reads.visible_to(by).filter(flow_id=flow_id).exists():
        raise NotFound("There is no such flow.")
    return None if bulks.reaches_all(by) else by
