"""What people call about their workers: look at them, drain them, end that."""

from django.http import HttpRequest
from ninja import Router

from accounts import http as people
from core.api import caller as _user
from core.api import documented
from jobs import http, operations
from jobs.api import documents
from jobs.protocol.fleet import Fleet, FleetWorker, Labels
from jobs.queries import fleet, pages, reads

router = Router(tags=["Fleet"])
READ, OPERATE = map(people.callers, ("read", "operate"))


@router.get("/workers", auth=READ, **documented("List workers", documents.WORKERS, Fleet))
def workers(request: HttpRequest) -> Fleet:
    """The caller's workers; everybody's for who runs the farm."""
    http.refuse_unknown_parameters(request, [])
    user = _user(request)
    viewer = pages.EVERYBODY if reads.is_operator(user) else user.pk
    rows = fleet.worker_rows(viewer=viewer, with_revoked=True)
    return Fleet(workers=[FleetWorker.of(row) for row in rows])


@router.get("/workers/{jobid:worker_id}", auth=READ, **documented("Look at a worker", documents.WORKER, FleetWorker))
def worker(request: HttpRequest, worker_id: int) -> FleetWorker:
    http.refuse_unknown_parameters(request, [])
    return FleetWorker.of(fleet.visible_worker(worker_id, user=_user(request)))


@router.post(
    "/workers/{jobid:worker_id}/drain", auth=OPERATE, **documented("Drain a worker", documents.DRAIN, FleetWorker)
)
def drain(request: HttpRequest, worker_id: int) -> FleetWorker:
    row = fleet.manageable_worker(worker_id, user=_user(request))
    operations.drain(row.worker, by=_user(request))
    return FleetWorker.of(fleet.visible_worker(worker_id, user=_user(request)))


@router.put(
    "/workers/{jobid:worker_id}/labels",
    auth=OPERATE,
    **documented("Label a worker", documents.LABELS, FleetWorker, has_body=True),
)
def label(request: HttpRequest, worker_id: int, body: Labels) -> FleetWorker:
    row = fleet.labelled_worker(worker_id, user=_user(request))
    operations.set_labels(row.worker, body.labels, by=_user(request))
    return FleetWorker.of(fleet.visible_worker(worker_id, user=_user(request)))


@router.post(
    "/workers/{jobid:worker_id}/undrain", auth=OPERATE, **documented("Undrain a worker", documents.UNDRAIN, FleetWorker)
)
def undrain(request: HttpRequest, worker_id: int) -> FleetWorker:
    row = fleet.manageable_worker(worker_id, user=_user(request))
    operations.undrain(row.worker, by=_user(request))
    return FleetWorker.of(fleet.visible_worker(worker_id, user=_user(request)))
