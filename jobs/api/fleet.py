"""What people call about their workers, what those who run the farm call to pause jobs that wait, and what autoscalers
call: how much there is to do, and how many workers that takes."""

from collections.abc import Callable
from typing import Annotated, Any, Final

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare
from ninja.params import functions as parameters
from ninja.security import HttpBearer

from accounts import http as people
from core.api import Calls, Sample, caller as _user
from core.values import NO_NUL
from jobs import http, operations
from jobs.domain.scaling import DRAIN_S
from jobs.errors import NothingToPause, NotYoursToPause, OperatorsOnly, UnknownQueue
from jobs.models import ConcurrencyKey, PausedOwner, Queue
from jobs.protocol import fleet as protocol
from jobs.protocol.fleet import Fleet, FleetWorker, Labels, Pause, Waiting
from jobs.queries import fleet, pages, reads
from jobs.queries.gauges import queue_loads

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


class MetricsToken(HttpBearer):
    """The token of the settings that opens `/metrics`: it shows the same numbers."""

    def authenticate(self, request: HttpRequest, token: str) -> str | None:  # noqa: ARG002 (ninja's signature)
        """A name for who has it; None for any other token, and where the settings have none."""
        expected: str = settings.METRICS_TOKEN
        return "metrics" if expected and constant_time_compare(token, expected) else None


WAYS_IN: Final = [MetricsToken(), *people.callers("read")]
QueueName = Annotated[
    str, parameters.Query("", max_length=100, pattern=NO_NUL, description="Of this queue alone, flat; else of all.")
]
Drain = Annotated[
    float,
    parameters.Query(
        DRAIN_S, ge=1, le=protocol.LONGEST_DRAIN_S, description="Within how many seconds what waits is to begin."
    ),
]
JobsPerWorker = Annotated[
    int,
    parameters.Query(1, ge=1, le=protocol.MOST_JOBS_PER_WORKER, description="How many jobs a worker runs at a time."),
]


@router.call("get", "/scale", auth=WAYS_IN, tags=["Autoscalers"], sample=Sample(query="queue=chat&drain_s=60"))
def scale(
    request: HttpRequest, queue: QueueName, drain_s: Drain, jobs_per_worker: JobsPerWorker
) -> protocol.QueueScale | protocol.FarmScale:
    """How many workers are wanted?

    How much there is to do, and how many workers keep up with what arrives and have what waits begun within `drain_s`
    seconds. For autoscalers: `deploy/keda` has an example.

    With `queue` the answer is flat; without it, `{"queues": [...]}`. The token is an operator's with the scope `read`,
    or that of `/metrics`; 403 `forbidden` for other people, 422 `unknown_queue`.

    `wanted_workers` is (`arrivals_per_s` x `mean_run_s` + `waiting` x the smaller of 1 and `mean_run_s` / `drain_s`),
    rounded up, at least 1 and at most `ceiling`, but never fewer than `running`; all of it divided by
    `jobs_per_worker`. 0 when nothing waits or runs. A paused queue wants what it runs. While no run has ended in an
    hour, each waiting job counts as one.
    """
    http.refuse_unknown_parameters(request, ["queue", "drain_s", "jobs_per_worker"])
    _refuse_members(request)
    answers = [
        protocol.scale(each, drain_s=drain_s, jobs_per_worker=jobs_per_worker) for each in queue_loads(queue=queue)
    ]
    if not queue:
        return protocol.FarmScale(queues=answers)
    if not answers:
        raise UnknownQueue(queue=queue)
    return answers[0]


def _refuse_members(request: HttpRequest) -> None:
    """The numbers are of everybody's jobs, so they are for who may see those."""
    caller = request.auth  # type: ignore[attr-defined]  # set by ninja
    if isinstance(caller, User) and not reads.is_operator(caller):
        raise OperatorsOnly
