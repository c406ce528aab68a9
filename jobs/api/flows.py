"""Flows: jobs that come after one another, looked at and acted on together, and the signals that they wait for."""

from typing import cast

from django.http import HttpRequest, HttpResponse
from ninja import Status

from accounts import http as people
from core.api import Calls, Sample, caller as _user
from jobs import http, operations
from jobs.api.clients import OPERATE, READ, SUBMIT, IdempotencyKey
from jobs.errors import JobDeleted
from jobs.protocol import clients, flows as protocol
from jobs.queries import flows, pages, reads

router = Calls(tags=["Clients"])


@router.call(
    "post", "/flows", auth=SUBMIT, answer=Status[protocol.Flow],
    sample=Sample(body={"template": "report", "values": {"day": "2030-01-31"}}),
)  # fmt: skip
def submit(request: HttpRequest, body: protocol.NewFlow, idempotency_key: IdempotencyKey = None) -> HttpResponse:
    """Start a flow from a template.

    All jobs of the template that people keep under this name, with `values` in place of its placeholders, as jobs of
    yours: with your rights and quotas, in one transaction. 422 `unknown_template`; 422 `invalid` for a value that no
    placeholder has, and for a placeholder without one; 409 `not_unique` while a job of yours has a `unique_key` of one
    of them. An `Idempotency-Key` makes it repeatable, as it does a submit.
    """
    user = _user(request)
    options: operations.JobOptions = {
        "owner": user, "token_id": people.token_id(request), "may_wait": http.may_wait(request),
        "keep_content": people.keeps_content(request),
    }  # fmt: skip
    answers = operations.once(
        http.repeatable(request, user, idempotency_key, body),
        count=lambda: http.count_submitted(request, user, jobs=len(operations.jobs_of(body.template, body.values))),
        submit=lambda: operations.store_flow(body.template, body.values, by=user, **options),
    )
    first = answers[0] if isinstance(answers[0], int) else cast("operations.Stored", answers[0]).id
    job = reads.visible_to(user).filter(pk=first).first()
    if job is None or job.flow_id is None:
        raise JobDeleted(job=first)
    return http.answered(show(request, job.flow_id), status=201)


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


@router.call("post", "/flows/{jobid:flow_id}/retry", auth=OPERATE, sample=Sample(body={"from": "$JOB"}))
def retry(
    request: HttpRequest, flow_id: int, body: protocol.RetryFlow | None = None, idempotency_key: IdempotencyKey = None
) -> protocol.RetriedFlow:
    """Try again what failed in a flow.

    Each job that failed, timed out or was canceled by somebody, in its place; and what was canceled for its sake. A
    second call finds nothing more to try again.

    With `{"from": 7}` that ended job instead, and all that came after it, however they ended; what comes before is
    kept. 409 `not_ended` while one of these waits or runs (cancel it first), 409 `already_retried` (with `job`) where
    another job has the place of that one. An `Idempotency-Key` makes it repeatable.
    """
    user, from_job = _user(request), None if body is None else body.from_
    repeatable = http.repeatable(request, user, idempotency_key, body)
    jobs = operations.done_once(repeatable, lambda: operations.flows.retry(flow_id, by=user, from_job=from_job))
    return protocol.RetriedFlow(jobs=jobs)


@router.call(
    "post",
    "/jobs/{jobid:job_id}/signals",
    auth=OPERATE,
    sample=Sample(body={"name": "approved", "data": {"by": "ada"}}),
)
def signal(request: HttpRequest, job_id: int, body: clients.NewSignal) -> clients.SentSignal:
    """Send a job a signal.

    A job that waits for one of this name goes on, and its worker gets the `data`; else it is kept for 30 days until the
    job waits for it. The same `id` again is the same signal. While it waits for this one, `data` has to be what the
    form of the wait's `schema` could send: 422 `invalid` says what does not fit. 409 `job_has_ended`.
    """
    is_new = operations.signal(job_id, body.name, body.data, by=_user(request), key=body.id)
    return clients.SentSignal(is_new=is_new)
