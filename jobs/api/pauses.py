"""What those who run the farm call to pause jobs that wait."""

from typing import Any, Final

from django.contrib.auth.models import User
from django.http import HttpRequest

from accounts import http as people
from core.api import Calls, Sample
from core.api import caller as _user
from jobs import operations
from jobs.errors import NothingToPause, NotYoursToPause
from jobs.models import ConcurrencyKey, PausedOwner, Queue
from jobs.protocol.pauses import Pause, Waiting
from jobs.queries import fleet

router = Calls(tags=["Fleet"])
OPERATE = people.callers("operate")
_PAUSES: Final = {Queue: operations.pause, ConcurrencyKey: operations.pause_key, User: operations.pause_owner}
_RESUMES: Final = {Queue: operations.resume, ConcurrencyKey: operations.resume_key, User: operations.resume_owner}


@router.call("post", "/jobs/pause", auth=OPERATE, sample=Sample(body={"owner": "ada"}))
def pause(request: HttpRequest, body: Waiting) -> Pause:
    """Pause jobs that wait.

    Those of an `owner`, of a `queue`, or with a `concurrency_key` of a `kind` or a queue: none is claimed until they
    are resumed, those that are submitted or tried again meanwhile among them. What runs goes on. For staff who may
    operate the farm; where they are paused already nothing changes. 404 where there is no such person, queue or key.
    """
    return _changed(request, body, _PAUSES)


@router.call("post", "/jobs/resume", auth=OPERATE, sample=Sample(body={"owner": "ada"}))
def resume(request: HttpRequest, body: Waiting) -> Pause:
    """Resume jobs that were paused.

    Named as for `pause`: all of them may be claimed again at once.
    """
    return _changed(request, body, _RESUMES)


def _changed(request: HttpRequest, body: Waiting, operation_of: Any) -> Pause:
    user = _user(request)
    if not fleet.runs_the_farm(user):
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
