"""Bulk actions, as the pages have them: counted, begun, followed, stopped, undone."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from ninja import Status

from core.api import Calls, Sample, caller as _user
from core.refusal import existing
from jobs import http, operations
from jobs.api.clients import OPERATE, READ, IdempotencyKey
from jobs.domain.bulks import BulkAction
from jobs.errors import NotFound
from jobs.models import Bulk
from jobs.protocol import bulks as protocol
from jobs.queries import bulks

router = Calls(tags=["Clients"])


@router.call(
    "post",
    "/bulk-actions",
    auth=OPERATE,
    answer=Status[protocol.BulkState],
    sample=Sample(body={"action": "cancel", "filters": {"tag": "nightly"}, "begin_up_to": 500}),
)
def create(request: HttpRequest, body: protocol.NewBulk, idempotency_key: IdempotencyKey = None) -> HttpResponse:
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
def show(request: HttpRequest, bulk_id: int) -> protocol.BulkState:
    """Look at a bulk action.

    How many jobs match, how far it is, and what it came to.
    """
    return _shown(request, bulk_id)


@router.call("post", "/bulk-actions/{jobid:bulk_id}/begin", auth=OPERATE)
def begin(request: HttpRequest, bulk_id: int) -> protocol.BulkState:
    """Begin a bulk action.

    That is `ready`; a second call changes nothing. 422 while it is being counted.
    """
    return _done(request, bulk_id, operations.bulk.begin)


@router.call("post", "/bulk-actions/{jobid:bulk_id}/stop", auth=OPERATE)
def stop(request: HttpRequest, bulk_id: int) -> protocol.BulkState:
    """Stop a bulk action.

    No more is done of it; what is done is done.
    """
    return _done(request, bulk_id, operations.bulk.stop)


@router.call("post", "/bulk-actions/{jobid:bulk_id}/undo", auth=OPERATE)
def undo(request: HttpRequest, bulk_id: int) -> protocol.BulkState:
    """Undo a bulk action.

    Takes it back, job by job, where that is still true to do, and answers with the bulk action that does so; a second
    call with the same. 422 while it runs.
    """
    return _done(request, bulk_id, operations.bulk.undo)


def _done(request: HttpRequest, bulk_id: int, action: Callable[..., Bulk]) -> protocol.BulkState:
    return _shown(request, action(bulk_id, by=_user(request)).pk)


def _shown(request: HttpRequest, bulk_id: int) -> protocol.BulkState:
    return protocol.state(existing(bulks.seen(bulk_id, by=_user(request)), NotFound("There is no such bulk action.")))
