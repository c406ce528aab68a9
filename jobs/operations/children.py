"""Jobs that a running job submits for itself (docs/adr/0131)."""

from typing import Any

from core.large_json import Cut
from jobs.domain.flows import MOST_INTO
from jobs.domain.leases import Lease
from jobs.errors import ChildDiffers, InvalidValue
from jobs.models import Job, Worker, keeps_content
from jobs.operations import inputs, report, submit
from jobs.operations.new_jobs import NewJob
from jobs.queries import flows, moves, reports
from postgres import transactions


def submit_child(
    worker: Worker, job_id: int, lease: Lease, new: NewJob, *, position: int, outlives: bool = False
) -> int:
    """Submit a job for the one that `lease` holds, of its owner, group, token, trace and flow, and return its id.

    `position` counts from 0 in what the job submits: at a position where it has submitted one, in this attempt or an
    earlier one, nothing more is submitted, and that one is the answer. Raises ChildDiffers where that has another kind
    or payload. With `outlives` it goes on when the parent is canceled. Renews the lease.

    The rights are those of the owner: raises as `submit`, and LeaseLost.
    """
    if not isinstance(new["payload"], Cut):
        return _submit(worker, job_id, lease, new, position=position, outlives=outlives)
    report.heartbeat(worker, job_id, lease)  # nobody else stores anything for its owner
    ahead = inputs.stored_ahead(
        [new["payload"]], owner_id=reports.owner_of(job_id), unless=lambda: flows.child(job_id, position) is not None
    )
    with ahead:
        return _submit(worker, job_id, lease, new, position=position, outlives=outlives)


@transactions.retried
def _submit(worker: Worker, job_id: int, lease: Lease, new: NewJob, *, position: int, outlives: bool) -> int:
    if not 0 <= position < MOST_INTO:
        raise InvalidValue(field="position", why=f"from 0 to {MOST_INTO - 1:,}, got {position}")
    # From here on no other call submits for this job. A heartbeat alone passes a locked row.
    moves.lock_held(worker, [(job_id, lease)])
    report.heartbeat(worker, job_id, lease)
    if (child := flows.child(job_id, position)) is not None:
        return _same(child, new, position)
    parent = Job.objects.select_related("owner", "group", "content_deletion").get(pk=job_id)
    flow_id, depth = flows.of_parent(job_id)
    inherited: Any = {"owner": parent.owner, "group": parent.group, "token_id": parent.token_id, "may_wait": True}
    inherited["keep_content"] = keeps_content(parent)
    stored = submit.store_child(NewJob(**new, **inherited), flow_id=flow_id, traceparent=parent.traceparent)
    flows.adopt(stored.id, parent_id=job_id, position=position, depth=depth, outlives=outlives)
    return stored.id


def _same(child: Job, new: NewJob, position: int) -> int:
    if (child.kind, child.payload) != (new["kind"], new["payload"]):
        raise ChildDiffers(job=child.pk, position=position)
    return child.pk
