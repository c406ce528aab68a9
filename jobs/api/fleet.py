"""What people call about their workers, and what those who run the farm call to pause jobs that wait."""

from collections.abc import Callable
from typing import Any, Final

from django.contrib.auth.models import User
from django.http import HttpRequest

from accounts import http as people
from core.api import Calls, Sample, caller as _user
from jobs import http, operations
from jobs.errors import NothingToPause, NotYoursToPause
from jobs.models import ConcurrencyKey, PausedOwner, Queue
from jobs.protocol.fleet import Fleet, FleetWorker, Labels, Pause, Waiting
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


_PAUSES: Final = {Queue: operations.pause, ConcurrencyKey: operations.pause_key, User: operations.pause_owner}
_RESUMES: Final = {Queue: operations.resume, ConcurrencyKey: operations.resume_key, User: operations.resume_owner}


@router.call("post", "/jobs/pause", auth=OPERATE, sample=Sample(body={"owner": "ada"}))
def pause(request: HttpRequest, body: Waiting) -> Pause:
    """Pause jobs that wait.

    Those of an `owner`, of a `queue`, or with a `concurrency_key` of a `kind` or a queue: none is claimed until they
    are resumed, those that are submitted or tried again meanwhile among them. What runs goes on. For staff who may
    operate the farm; where they are paused already nothing changes. 404 where there is no such person, queue or key.
    """
    return _set_paused(request, body, _PAUSES)


@router.call("post", "/jobs/resume", auth=OPERATE, sample=Sample(body={"owner": "ada"}))
def resume(request: HttpRequest, body: Waiting) -> Pause:
    """Resume jobs that were paused.

    Named as for `pause`: all of them may be claimed again at once.
    """
    return _set_paused(request, body, _RESUMES)


def _set_paused(request: HttpRequest, body: Waiting, operation_of: Any) -> Pause:
    user = _user(request)
    if not reads.runs_farm(user):
        raise NotYoursToPause
    row = _named(body)
    operation_of[type(row)](row if isinstance(row, User) else row.pk, by=user)
    now = PausedOwner.objects.filter(owner=row).first() if isinstance(row, User) else _named(body)
    paused_at, by = getattr(now, "paused_at", None), getattr(now, "paused_by", None)
    return Pause(paused=paused_at is not None, since=paused_at, by=by and by.get_username())


def _named(body: Waiting) -> User | Queue | ConcurrencyKey:
    row: User | Queue | ConcurrencyKey | None
    if body.owner is not None:
        row = User.objects.filter(username=body.owner).first()
    elif body.concurrency_key is None:
        row = Queue.objects.filter(name=body.queue).first()
    else:
        scope = {"kind": body.kind or "", "queue": body.queue or "", "name": body.concurrency_key}
        row = ConcurrencyKey.objects.filter(**scope).first()
    if row is None:
        raise NothingToPause
    return row
