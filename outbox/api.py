"""The HTTP API of the outbox, version 1: endpoints, and the messages to them."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest
from django.views.decorators.debug import sensitive_variables
from ninja import Query, Status

from accounts import http as people
from core.api import Calls, Cursor, Deleted, Limit, Sample, caller, refuse_unknown_parameters
from outbox import operations, protocol, queries
from outbox.domain.messages import FIELDS, Wanted

router = Calls(tags=["Outbox"])
READ, OPERATE, CHANGE = map(people.callers, ("read", "operate", "endpoints"))


@router.call("get", "/endpoints", auth=READ)
def list_endpoints(request: HttpRequest, cursor: Cursor = None, limit: Limit = 50) -> protocol.Endpoints:
    """List endpoints.

    Your endpoints, newest first; for staff who may see them all of them.

    `next` is the `cursor` of the following page, null on the last one.
    """
    refuse_unknown_parameters(request, ["cursor", "limit"])
    rows = operations.visible_to(caller(request)).select_related("owner")
    rows = rows if cursor is None else rows.filter(pk__lt=cursor)
    page = list(rows.order_by("-pk")[: limit + 1])
    shown = queries.counted(page[:limit])
    return protocol.Endpoints(
        endpoints=[protocol.Endpoint.of(one) for one in shown], next=shown[-1].pk if len(page) > limit else None
    )


@router.call(
    "post",
    "/endpoints",
    auth=CHANGE,
    sample=Sample(
        body={"name": "mine", "url": "https://hooks.example/jobfarm", "events": ["job.failed", "job.timed_out"]}
    ),
)
@sensitive_variables("secret")
def create(request: HttpRequest, body: protocol.NewEndpoint) -> Status[protocol.EndpointWithSecret]:
    """Make an endpoint.

    Makes an endpoint of yours, or with `for_farm` one of the whole farm (404 for who is no operator). `secret` verifies
    what it gets, and is in this answer alone. Takes the scope `endpoints`, and with `with_result` `read` as well. 422
    `bad_url`, `bad_endpoint`; 409 `too_many_endpoints`.
    """
    wanted = Wanted(**body.model_dump(include={*FIELDS}))
    _check_results(request, wanted)
    row, secret = operations.create(wanted, by=caller(request), for_farm=body.for_farm)
    return Status(201, _with_secret(row.pk, secret, by=caller(request)))


@router.call("get", "/endpoints/{int:endpoint_id}", auth=READ)
def show(request: HttpRequest, endpoint_id: int) -> protocol.EndpointInFull:
    """Look at an endpoint.

    One endpoint, with the fingerprints of the secrets that sign now.
    """
    return _in_full(endpoint_id, by=caller(request))


@router.call(
    "patch", "/endpoints/{int:endpoint_id}", auth=CHANGE, sample=Sample(body={"events": ["job.*"], "per_minute": 60})
)
def change(request: HttpRequest, endpoint_id: int, body: protocol.ChangedEndpoint) -> protocol.EndpointInFull:
    """Change an endpoint.

    Changes the fields that are there. What was written for it before goes to its new address. Takes the scopes of
    making it as it is then. 403 `forbidden` for one that you may only look at.
    """
    with transaction.atomic():
        row = operations.operable(endpoint_id, by=caller(request), lock=True)
        as_it_is = {name: getattr(row, name) for name in FIELDS}
        wanted = Wanted(**as_it_is | body.model_dump(exclude_unset=True))
        _check_results(request, wanted)
        operations.change(endpoint_id, wanted, by=caller(request))
    return _in_full(endpoint_id, by=caller(request))


@router.call("post", "/endpoints/{int:endpoint_id}/rotate", auth=CHANGE, sample=Sample(body={"overlap_s": 3600}))
@sensitive_variables("secret")
def rotate(request: HttpRequest, endpoint_id: int, body: protocol.NewSecret) -> protocol.EndpointWithSecret:
    """Rotate an endpoint's secret.

    Gives it another secret, which is in this answer alone. Those before sign along for `overlap_s`, a day without it.
    Takes the scope `endpoints`.
    """
    overlap = timedelta(seconds=body.overlap_s)
    secret = operations.rotate(endpoint_id, by=caller(request), secret=body.secret, overlap=overlap)
    return _with_secret(endpoint_id, secret, by=caller(request))


@router.call("post", "/endpoints/{int:endpoint_id}/pause", auth=OPERATE)
def pause(request: HttpRequest, endpoint_id: int) -> protocol.EndpointInFull:
    """Pause an endpoint.

    Sends nothing to it; what happens is kept for it until `resume`.
    """
    return _acted(operations.pause, endpoint_id, by=caller(request))


@router.call("post", "/endpoints/{int:endpoint_id}/resume", auth=OPERATE)
def resume(request: HttpRequest, endpoint_id: int) -> protocol.EndpointInFull:
    """Resume an endpoint.

    Sends to it again, at once what was kept for it or waits for another attempt; also when the farm paused or disabled
    it.
    """
    return _acted(operations.resume, endpoint_id, by=caller(request))


@router.call("post", "/endpoints/{int:endpoint_id}/disable", auth=OPERATE)
def disable(request: HttpRequest, endpoint_id: int) -> protocol.EndpointInFull:
    """Disable an endpoint.

    Keeps nothing for it any more; what waits for it is dead.
    """
    return _acted(operations.disable, endpoint_id, by=caller(request))


@router.call("post", "/endpoints/{int:endpoint_id}/test", auth=OPERATE)
def send_test(request: HttpRequest, endpoint_id: int) -> protocol.SentTest:
    """Send a test event.

    Sends it an event `outbox.test`, whatever it asks for.
    """
    return protocol.SentTest(messages=operations.send_test(endpoint_id, by=caller(request)))


@router.call("delete", "/endpoints/{int:endpoint_id}", auth=CHANGE)
def delete(request: HttpRequest, endpoint_id: int) -> Deleted:
    """Delete an endpoint.

    Deletes it with its messages. Takes the scope `endpoints`.
    """
    operations.delete(endpoint_id, by=caller(request))
    return Deleted(id=endpoint_id)


def _check_results(request: HttpRequest, wanted: Wanted) -> None:
    """Whoever has results sent somewhere may read them."""
    if wanted.with_result:
        people.require(request, "read")


def _acted(act: Callable[..., Any], endpoint_id: int, *, by: User) -> protocol.EndpointInFull:
    act(endpoint_id, by=by)
    return _in_full(endpoint_id, by=by)


@sensitive_variables("secret")
def _with_secret(endpoint_id: int, secret: str, *, by: User) -> protocol.EndpointWithSecret:
    return protocol.EndpointWithSecret(**dict(_in_full(endpoint_id, by=by)), secret=secret)


def _in_full(endpoint_id: int, *, by: User) -> protocol.EndpointInFull:
    secrets = [protocol.EndpointSecret.model_validate(one) for one in queries.live_secrets([endpoint_id])]
    return protocol.EndpointInFull.of(queries.counted([operations.find(endpoint_id, by=by)])[0], secrets=secrets)


@router.call("get", "/messages", auth=READ, sample=Sample(query="status=dead&type=job.failed&limit=20"))
def list_messages(request: HttpRequest, filters: Query[protocol.MessageFilters]) -> protocol.Messages:
    """List messages.

    The messages to the endpoints that you may see, newest first, without their bodies.

    `next` is the `cursor` of the following page, null on the last one.
    """
    refuse_unknown_parameters(request, protocol.MessageFilters.model_fields)
    matching = operations.messages_visible_to(caller(request)).filter(**_wanted(filters).columns())
    rows = queries.page(matching, before=filters.cursor or 0, limit=filters.limit + 1)
    shown = rows[: filters.limit]
    return protocol.Messages(
        messages=[protocol.Message.of(row) for row in shown], next=shown[-1].pk if len(rows) > filters.limit else None
    )


@router.call("get", "/messages/{int:message_id}", auth=READ)
def show_message(request: HttpRequest, message_id: int) -> protocol.MessageInFull:
    """Look at a message.

    One message with its body and its attempts, each with its time and the first 4 kB of the answer.
    """
    row = operations.find_message(message_id, by=caller(request))
    return protocol.MessageInFull.with_attempts(row, queries.attempts(row.pk))


@router.call("post", "/messages/{int:message_id}/replay", auth=OPERATE)
def replay(request: HttpRequest, message_id: int) -> protocol.Message:
    """Replay a message.

    Sends a message that has ended once more, under the id it had. 409 `cannot_replay` for one that waits.
    """
    return protocol.Message.of(operations.replay(message_id, by=caller(request)))


@router.call("post", "/replays", auth=OPERATE, sample=Sample(body={"status": "dead", "type": "job.failed"}))
def replay_all(request: HttpRequest, body: protocol.NewMessageReplay) -> Status[protocol.MessageReplay]:
    """Replay all messages that match.

    Sends all messages that match and have ended once more, oldest first, 500 a second at most; those to disabled
    endpoints are left out. Without a filter: all that are yours; for operators all there are. `id` is null when nothing
    matches, and with `"dry_run": true`, which counts alone: `matched`.
    """
    wanted, person = _wanted(body), caller(request)
    if body.dry_run:
        return Status(201, protocol.MessageReplay.of(None, matched=operations.count_matching(wanted, by=person)))
    return Status(201, protocol.MessageReplay.of(operations.replay_matching(wanted, by=person)))


@router.call("get", "/replays/{int:replay_id}", auth=READ)
def progress(request: HttpRequest, replay_id: int) -> protocol.MessageReplay:
    """Look at a replay of many.

    How far a replay of many is, for as long as the scheduler keeps its functions.
    """
    return protocol.MessageReplay.of(operations.find_replay(replay_id, by=caller(request)))


@router.call("post", "/replays/{int:replay_id}/stop", auth=OPERATE)
def stop(request: HttpRequest, replay_id: int) -> protocol.MessageReplay:
    """Stop a replay of many.

    Begins no further batch of a replay of many; what was replayed stays so. 409 `cannot_stop` once it is over, or while
    a batch is under way.
    """
    return protocol.MessageReplay.of(operations.stop_replay(replay_id, by=caller(request)))


def _wanted(filters: protocol.MessageFilters | protocol.NewMessageReplay) -> operations.Filter:
    return operations.Filter(
        endpoint=filters.endpoint, status=filters.status, event_type=filters.type or "", subject=filters.subject or ""
    )
