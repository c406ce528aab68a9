"""Flows: jobs that come after one another, looked at and acted on together."""

from django.http import HttpRequest

from core.api import Calls
from core.api import caller as _user
from jobs import operations
from jobs.api.clients import OPERATE, READ
from jobs.protocol import flows as protocol
from jobs.queries import flows, pages, reads

router = Calls(tags=["Clients"])


@router.call("get", "/flows/{jobid:flow_id}", auth=READ)
def show(request: HttpRequest, flow_id: int) -> protocol.Flow:
    """Look at a flow.

    The jobs that you may see of those that are connected, each with what it comes after. A job that was tried again has
    given its place to the one that does so.
    """
    user = _user(request)
    seen = flows.seen(flow_id, viewer=pages.EVERYBODY if reads.is_operator(user) else user.pk)
    places = seen.places[: protocol.MOST_STEPS]
    used = protocol.FlowUsage.model_validate(seen.used, from_attributes=True) if seen.used else None
    jobs = [protocol.Step.of(one, seen) for one in places]
    return protocol.Flow(id=flow_id, created_at=seen.created_at, counts=seen.counts, usage=used, jobs=jobs)


@router.call("post", "/flows/{jobid:flow_id}/cancel", auth=OPERATE)
def cancel(request: HttpRequest, flow_id: int) -> protocol.CanceledFlow:
    """Cancel a flow.

    All of its jobs that have not ended and that you may act on.
    """
    return protocol.CanceledFlow(canceled=operations.flows.cancel(flow_id, by=_user(request)))


@router.call("post", "/flows/{jobid:flow_id}/retry", auth=OPERATE)
def retry(request: HttpRequest, flow_id: int, body: protocol.RetryFlow | None = None) -> protocol.RetriedFlow:
    """Try again what failed in a flow.

    Each job that failed, timed out or was canceled by somebody, in its place; and what was canceled for its sake. A
    second call finds nothing more to try again.

    With `{"from": 7}` that ended job instead, and all that came after it, however they ended; what comes before is
    kept. 409 `not_ended` while one of these waits or runs (cancel it first), 409 `already_retried` where another job
    has the place of that one.
    """
    from_job = None if body is None else body.from_
    return protocol.RetriedFlow(jobs=operations.flows.retry(flow_id, by=_user(request), from_job=from_job))
