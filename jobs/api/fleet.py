"""What people call about their workers: look at them, drain them, end that."""

from django.http import HttpRequest
from ninja import Router

from accounts import http as people
from core.api import caller as _user
from jobs import http, operations
from jobs.api import documents
from jobs.protocol.clients import Problem
from jobs.protocol.fleet import Fleet, FleetWorker, Labels
from jobs.queries import fleet, pages, reads

router = Router(tags=["Fleet"])
READ, OPERATE = map(people.callers, ("read", "operate"))


@router.get(
    "/workers",
    auth=READ,
    response={200: Fleet, documents.REFUSALS: Problem},
    summary="List workers",
    description=documents.WORKERS,
)
def workers(request: HttpRequest) -> Fleet:
    """The caller's workers; everybody's for who runs the farm."""
    http.refuse_unknown_parameters(request, [])
    user = _user(request)
    viewer = pages.EVERYBODY if reads.is_operator(user) else user.pk
    rows = fleet.worker_rows(viewer=viewer, with_revoked=True)
    return Fleet(workers=[FleetWorker.of(row) for row in rows])


@router.get(
    "/workers/{jobid:worker_id}",
    auth=READ,
    response={200: FleetWorker, documents.REFUSALS: Problem},
    summary="Look at a worker",
    description=documents.WORKER,
)
def worker(request: HttpRequest, worker_id: int) -> FleetWorker:
    """One worker."""
    http.refuse_unknown_parameters(request, [])
    return FleetWorker.of(fleet.visible_worker(worker_id, user=_user(request)))


@router.post(
    "/workers/{jobid:worker_id}/drain",
    auth=OPERATE,
    response={200: FleetWorker, documents.REFUSALS: Problem},
    summary="Drain a worker",
    description=documents.DRAIN,
)
def drain(request: HttpRequest, worker_id: int) -> FleetWorker:
    """Give it nothing more."""
    row = fleet.manageable_worker(worker_id, user=_user(request))
    operations.drain(row.worker, by=_user(request))
    return FleetWorker.of(fleet.visible_worker(worker_id, user=_user(request)))


@router.put(
    "/workers/{jobid:worker_id}/labels",
    auth=OPERATE,
    response={200: FleetWorker, documents.REFUSALS: Problem},
    summary="Label a worker",
    description=documents.LABELS,
    openapi_extra=documents.with_body(documents.LABELS),
)
def label(request: HttpRequest, worker_id: int, body: Labels) -> FleetWorker:
    """Set the labels that win."""
    row = fleet.labelled_worker(worker_id, user=_user(request))
    operations.set_labels(row.worker, body.labels, by=_user(request))
    return FleetWorker.of(fleet.visible_worker(worker_id, user=_user(request)))


@router.post(
    "/workers/{jobid:worker_id}/undrain",
    auth=OPERATE,
    response={200: FleetWorker, documents.REFUSALS: Problem},
    summary="Undrain a worker",
    description=documents.UNDRAIN,
)
def undrain(request: HttpRequest, worker_id: int) -> FleetWorker:
    """Let it claim again."""
    row = fleet.manageable_worker(worker_id, user=_user(request))
    operations.undrain(row.worker, by=_user(request))
    return FleetWorker.of(fleet.visible_worker(worker_id, user=_user(request)))
