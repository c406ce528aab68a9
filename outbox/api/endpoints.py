"""Endpoints: who gets events, at which address, signed with what."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest
from django.views.decorators.debug import sensitive_variables
from ninja import Router, Status

from accounts import http as people
from core.api import Cursor, Limit, caller, documented, refuse_unknown_parameters
from outbox import operations, protocol, queries
from outbox.api import documents
from outbox.domain.endpoints import Wanted
from outbox.errors import NotFound
from outbox.models import Endpoint

router = Router(tags=["Outbox"])
READ, OPERATE, CHANGE = map(people.callers, ("read", "operate", "endpoints"))
_FIELDS = ("name", "url", "events", "kinds", "with_result", "per_minute")


@router.get("", auth=READ, **documented("List endpoints", documents.ENDPOINTS, protocol.Endpoints))
def list_endpoints(request: HttpRequest, cursor: Cursor = None, limit: Limit = 50) -> protocol.Endpoints:
    refuse_unknown_parameters(request, ["cursor", "limit"])
    rows = operations.visible_to(caller(request)).select_related("owner")
    rows = rows if cursor is None else rows.filter(pk__lt=cursor)
    page = list(rows.order_by("-pk")[: limit + 1])
    shown = queries.counted(page[:limit])
    return protocol.Endpoints(
        endpoints=[protocol.Endpoint.of(one) for one in shown],
        next=shown[-1].endpoint.pk if len(page) > limit else None,
    )


@router.post(
    "",
    auth=CHANGE,
    **documented("Make an endpoint", documents.CREATE, protocol.EndpointWithSecret, status=201, has_body=True),
)
@sensitive_variables("secret")
def create(request: HttpRequest, body: protocol.NewEndpoint) -> Status[protocol.EndpointWithSecret]:
    wanted = Wanted(**body.model_dump(include={*_FIELDS}))
    _check_results(request, wanted)
    row, secret = operations.create(wanted, by=caller(request), for_farm=body.for_farm)
    return Status(201, _with_secret(row.pk, secret, by=caller(request)))


@router.get(
    "/{int:endpoint_id}", auth=READ, **documented("Look at an endpoint", documents.SHOW, protocol.EndpointInFull)
)
def show(request: HttpRequest, endpoint_id: int) -> protocol.EndpointInFull:
    return _in_full(endpoint_id, by=caller(request))


@router.patch(
    "/{int:endpoint_id}",
    auth=CHANGE,
    **documented("Change an endpoint", documents.CHANGE, protocol.EndpointInFull, has_body=True),
)
def change(request: HttpRequest, endpoint_id: int, body: protocol.ChangedEndpoint) -> protocol.EndpointInFull:
    with transaction.atomic():
        row = operations.operable(endpoint_id, by=caller(request), lock=True)
        as_it_is = {name: getattr(row, name) for name in _FIELDS}
        wanted = Wanted(**as_it_is | body.model_dump(exclude_unset=True))
        _check_results(request, wanted)
        operations.change(endpoint_id, wanted, by=caller(request))
    return _in_full(endpoint_id, by=caller(request))


@router.post(
    "/{int:endpoint_id}/rotate",
    auth=CHANGE,
    **documented("Rotate an endpoint's secret", documents.ROTATE, protocol.EndpointWithSecret, has_body=True),
)
@sensitive_variables("secret")
def rotate(request: HttpRequest, endpoint_id: int, body: protocol.NewSecret) -> protocol.EndpointWithSecret:
    overlap = timedelta(seconds=body.overlap_s)
    secret = operations.rotate(endpoint_id, by=caller(request), secret=body.secret, overlap=overlap)
    return _with_secret(endpoint_id, secret, by=caller(request))


@router.post(
    "/{int:endpoint_id}/pause",
    auth=OPERATE,
    **documented("Pause an endpoint", documents.PAUSE, protocol.EndpointInFull),
)
def pause(request: HttpRequest, endpoint_id: int) -> protocol.EndpointInFull:
    return _acted(operations.pause, endpoint_id, by=caller(request))


@router.post(
    "/{int:endpoint_id}/resume",
    auth=OPERATE,
    **documented("Resume an endpoint", documents.RESUME, protocol.EndpointInFull),
)
def resume(request: HttpRequest, endpoint_id: int) -> protocol.EndpointInFull:
    return _acted(operations.resume, endpoint_id, by=caller(request))


@router.post(
    "/{int:endpoint_id}/disable",
    auth=OPERATE,
    **documented("Disable an endpoint", documents.DISABLE, protocol.EndpointInFull),
)
def disable(request: HttpRequest, endpoint_id: int) -> protocol.EndpointInFull:
    return _acted(operations.disable, endpoint_id, by=caller(request))


@router.post(
    "/{int:endpoint_id}/test", auth=OPERATE, **documented("Send a test event", documents.TEST, protocol.SentTest)
)
def send_test(request: HttpRequest, endpoint_id: int) -> protocol.SentTest:
    return protocol.SentTest(messages=operations.send_test(endpoint_id, by=caller(request)))


@router.delete(
    "/{int:endpoint_id}", auth=CHANGE, **documented("Delete an endpoint", documents.DELETE, protocol.DeletedEndpoint)
)
def delete(request: HttpRequest, endpoint_id: int) -> protocol.DeletedEndpoint:
    operations.delete(endpoint_id, by=caller(request))
    return protocol.DeletedEndpoint(id=endpoint_id)


def _check_results(request: HttpRequest, wanted: Wanted) -> None:
    """Whoever has results sent somewhere may read them."""
    if wanted.with_result:
        people.require(request, "read")


def _acted(act: Callable[..., Any], endpoint_id: int, *, by: User) -> protocol.EndpointInFull:
    act(endpoint_id, by=by)
    return _in_full(endpoint_id, by=by)


def _in_full(endpoint_id: int, *, by: User) -> protocol.EndpointInFull:
    return protocol.EndpointInFull.of(_counted(endpoint_id, by=by), secrets=_secrets(endpoint_id))


@sensitive_variables("secret")
def _with_secret(endpoint_id: int, secret: str, *, by: User) -> protocol.EndpointWithSecret:
    counted = _counted(endpoint_id, by=by)
    return protocol.EndpointWithSecret.of(counted, secrets=_secrets(endpoint_id), secret=secret)


def _counted(endpoint_id: int, *, by: User) -> queries.Counted:
    row: Endpoint | None = operations.visible_to(by).select_related("owner").filter(pk=endpoint_id).first()
    if row is None:
        raise NotFound(resource="endpoint")
    return queries.counted([row])[0]


def _secrets(endpoint_id: int) -> list[protocol.EndpointSecret]:
    return [protocol.EndpointSecret.model_validate(one) for one in queries.secrets(endpoint_id)]
