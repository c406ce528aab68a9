"""Jobs that are acted on together: flows, started from templates, and the signals that their jobs wait for; bulk
actions, as the pages have them: counted, begun, followed, stopped, undone."""

from collections import Counter
from collections.abc import Callable, Collection
from typing import cast

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from ninja import Status

from accounts import http as people
from core.api import Sample, caller as _user
from core.refusal import existing
from jobs import http, operations
from jobs.api.clients import OPERATE, READ, SUBMIT, IdempotencyKey, router
from jobs.domain.bulks import BulkAction
from jobs.errors import JobDeleted, NotFound
from jobs.models import Bulk
from jobs.protocol import bulks as protocol, clients
from jobs.queries import bulks, flows, pages, reads


@router.call(
    "post", "/flows", auth=SUBMIT, answer=Status[clients.Flow],
    sample=Sample(body={"template": "report", "values": {"day": "2030-01-31"}}),
)  # fmt: skip
def start_flow(request: HttpRequest, body: clients.NewFlow, idempotency_key: IdempotencyKey = None) -> HttpResponse:
    """Start a flow from a template.

    All jobs of the template that people keep under this name, with `values` in place of its placeholders, as jobs of
    yours: with your rights and quotas, in one transaction. 422 `unknown_template`; 422 `invalid` for a value that no
    placeholder has, and for a placeholder without one; 409 `not_unique` while a job of yours has a `unique_key` of one
    of them. An `Idempotency-Key` makes it repeatable, as it does a submit; without the scope `read`, a repeat is
    answered with the jobs of the first request alone.
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
    ids = [one if isinstance(one, int) else cast("operations.Stored", one).id for one in answers]
    job = reads.visible_to(user).filter(pk=ids[0]).first()
    if job is None or job.flow_id is None:
        raise JobDeleted(job=ids[0])
    token = people.let_in_by(request)
    is_whole = token is None or token.may("read")  # else how its own jobs stand, as after a submit
    return http.answered(_flow(user, job.flow_id, of=None if is_whole else ids), status=201)


@router.call("get", "/flows/{jobid:flow_id}", auth=READ)
def show_flow(request: HttpRequest, flow_id: int) -> clients.Flow:
    """Look at a flow.

    The jobs that you may see of those that are connected, each with what it comes after. A job that was tried again has
    given its place to the one that does so.
    """
    return _flow(_user(request), flow_id)


def _flow(user: User, flow_id: int, *, of: Collection[int] | None = None) -> clients.Flow:
    """What this person may see of a flow; `of`: of that the places of these jobs, and not what the whole used."""
    seen = flows.seen(flow_id, viewer=pages.EVERYBODY if reads.is_operator(user) else user.pk)
    places = [one for one in seen.places if of is None or one.place_id in of][: clients.MOST_STEPS]
    used = clients.FlowUsage.model_validate(seen.used, from_attributes=True) if seen.used and of is None else None
    jobs = [clients.Step.of(one, seen) for one in places]
    counts = seen.counts if of is None else Counter(one.status for one in places)
    return clients.Flow(id=flow_id, created_at=seen.created_at, counts=counts, usage=used, jobs=jobs)


@router.call("post", "/flows/{jobid:flow_id}/cancel", auth=OPERATE)
def cancel_flow(request: HttpRequest, flow_id: int) -> clients.CanceledFlow:
    """Cancel a flow.

    All of its jobs that have not ended and that you may act on.
    """
    return clients.CanceledFlow(canceled=operations.flows.cancel(flow_id, by=_user(request)))


@router.call("post", "/flows/{jobid:flow_id}/retry", auth=OPERATE, sample=Sample(body={"from": "$JOB"}))
def retry_flow(
    request: HttpRequest, flow_id: int, body: clients.RetryFlow | None = None, idempotency_key: IdempotencyKey = None
) -> clients.RetriedFlow:
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
    return clients.RetriedFlow(jobs=jobs)


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


@router.call(
    "post",
    "/bulk-actions",
    auth=OPERATE,
    answer=Status[protocol.BulkState],
    sample=Sample(body={"action": "cancel", "filters": {"tag": "nightly"}, "begin_up_to": 500}),
)
def create_bulk(request: HttpRequest, body: protocol.NewBulk, idempotency_key: IdempotencyKey = None) -> HttpResponse:
    """Do something to many jobs.

    Cancels, retries, moves, gives a priority to, or runs now all jobs that match and that you may act on: yours; for
    operators all. They are counted first. With `begin_up_to` it begins by itself if no more match; else it is `ready`,
    and waits for `begin`, a day at most. A cluster does it in steps: look at it to follow it. Jobs that come later are
    not meant.

    422 for an unknown queue or a priority that makes no sense, 403 `forbidden` for what takes a right that you lack,
    413 `quota_reached` with 100 that are not over. An `Idempotency-Key` makes it repeatable, as it does a submit.
    """
    user = _user(request)

    def make() -> list[int]:
        made = operations.bulk.create(
            BulkAction(body.action), by=user, filters=body.filters.as_filters(),
            value="" if body.value is None else str(body.value), begins_up_to=body.begin_up_to,
        )  # fmt: skip
        return [made.pk]

    [number] = operations.once(http.repeatable(request, user, idempotency_key, body), count=lambda: None, submit=make)
    return http.answered(_shown(request, int(str(number))), status=201)


@router.call("get", "/bulk-actions", auth=READ)
def list_bulk_actions(request: HttpRequest) -> protocol.BulkStates:
    """List bulk actions.

    The latest that were begun: yours; everybody's for operators.
    """
    user = _user(request)
    rows = bulks.of_person(None if operations.sees_all(user) else user.pk, limit=protocol.MOST_LISTED)
    return protocol.BulkStates(bulk_actions=[protocol.state(row) for row in rows])


@router.call("get", "/bulk-actions/{jobid:bulk_id}", auth=READ)
def show_bulk(request: HttpRequest, bulk_id: int) -> protocol.BulkState:
    """Look at a bulk action.

    How many jobs match, how far it is, and what it came to.
    """
    return _shown(request, bulk_id)


@router.call("post", "/bulk-actions/{jobid:bulk_id}/begin", auth=OPERATE)
def begin_bulk(request: HttpRequest, bulk_id: int) -> protocol.BulkState:
    """Begin a bulk action.

    That is `ready`; a second call changes nothing. 422 while it is being counted.
    """
    return _done(request, bulk_id, operations.bulk.begin)


@router.call("post", "/bulk-actions/{jobid:bulk_id}/stop", auth=OPERATE)
def stop_bulk(request: HttpRequest, bulk_id: int) -> protocol.BulkState:
    """Stop a bulk action.

    No more is done of it; what is done is done.
    """
    return _done(request, bulk_id, operations.bulk.stop)


@router.call("post", "/bulk-actions/{jobid:bulk_id}/undo", auth=OPERATE)
def undo_bulk(request: HttpRequest, bulk_id: int) -> protocol.BulkState:
    """Undo a bulk action.

    Takes it back, job by job, where that is still true to do, and answers with the bulk action that does so; a second
    call with the same. 422 while it runs.
    """
    return _done(request, bulk_id, operations.bulk.undo)


def _done(request: HttpRequest, bulk_id: int, action: Callable[..., Bulk]) -> protocol.BulkState:
    return _shown(request, action(bulk_id, by=_user(request)).pk)


def _shown(request: HttpRequest, bulk_id: int) -> protocol.BulkState:
    return protocol.state(existing(bulks.seen(bulk_id, by=_user(request)), NotFound("There is no such bulk action.")))
