"""What people call about their workers: look at them, drain them, end that."""

from collections.abc import Callable

from django.http import HttpRequest

from accounts import http as people
from core.api import Calls, Sample
from core.api import caller as _user
from jobs import http, operations
from jobs.protocol.fleet import Fleet, FleetWorker, Labels
from jobs.queries import fleet, pages, reads

router = Calls(tags=["Fleet"])
READ, OPERATE = map(people.callers, ("read", "operate"))


@router.call("get", "/workers", auth=READ)
def workers(request: HttpRequest) -> Fleet:
    """List workers.

    Your workers; everybody's for operators. The 200 that were seen last, those first, revoked ones at the end.

    `presence` is `live`, `away` (not seen for 90 seconds), `never_connected` or `revoked`. `about` is what a worker
    reported of itself.
    """
    http.refuse_unknown_parameters(request, [])
    user = _user(request)
    viewer = pages.EVERYBODY if reads.is_operator(user) else user.pk
    rows = fleet.worker_rows(viewer=viewer, with_revoked=True)
    return Fleet(workers=[FleetWorker.of(row) for row in rows])


@router.call("get", "/workers/{jobid:worker_id}", auth=READ)
def worker(request: HttpRequest, worker_id: int) -> FleetWorker:
    """Look at a worker.

    One worker, as the list has it.
    """
    http.refuse_unknown_parameters(request, [])
    return FleetWorker.of(fleet.visible_worker(worker_id, user=_user(request)))


@router.call("post", "/workers/{jobid:worker_id}/drain", auth=OPERATE)
def drain(request: HttpRequest, worker_id: int) -> FleetWorker:
    """Drain a worker.

    The worker finishes what it holds and is given nothing more, until `undrain`. It stays connected, and is notified.
    For its owner, and for staff who may operate the farm; of one that is drained already nothing changes. It is empty
    when `jobs` is.
    """
    return _changed(request, worker_id, operations.drain)


@router.call(
    "put", "/workers/{jobid:worker_id}/labels", auth=OPERATE, sample=Sample(body={"labels": {"region": "home"}})
)
def label(request: HttpRequest, worker_id: int, body: Labels) -> FleetWorker:
    """Label a worker.

    Sets the labels of a worker that win over those it announces: `{}` leaves it to what it announces, an empty value
    takes a label away. For staff who may operate the farm alone, since what is set here its owner cannot announce away.
    What the worker holds it keeps.
    """
    row = fleet.manageable_worker(worker_id, user=_user(request), by_staff=True)
    operations.set_labels(row.worker, body.labels, by=_user(request))
    return FleetWorker.of(fleet.visible_worker(worker_id, user=_user(request)))


@router.call("post", "/workers/{jobid:worker_id}/undrain", auth=OPERATE)
def undrain(request: HttpRequest, worker_id: int) -> FleetWorker:
    """Undrain a worker.

    The worker is given jobs again. For whoever may drain it; of one that is not drained nothing changes.
    """
    return _changed(request, worker_id, operations.undrain)


def _changed(request: HttpRequest, worker_id: int, change: Callable[..., bool]) -> FleetWorker:
    change(fleet.manageable_worker(worker_id, user=_user(request)).worker, by=_user(request))
    return FleetWorker.of(fleet.visible_worker(worker_id, user=_user(request)))
