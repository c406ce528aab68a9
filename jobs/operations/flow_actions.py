"""What people do with a flow as a whole."""

from typing import Final

from django.contrib.auth.models import User

from core import audit
from core.refusal import Refusal
from jobs.domain.flows import downstream
from jobs.domain.states import ENDED, Status
from jobs.errors import AlreadyRetried, NotAllowed, NotEnded, NotFound, StepNotEnded
from jobs.models import Flow, Job
from jobs.operations import finish, queues, submit
from jobs.queries import bulks, flows, reads
from postgres import transactions

AT_ONCE: Final = 500  # canceled in one transaction


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
