"""The farm that a site's TASKS name, and the tasks on their way to it: stored with what enqueued them, sent when that
is committed, and sent later where the farm was away, each of them once."""

import logging
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from django.db import router, transaction
from django.utils import timezone

from jobfarm_client.backoff import delay_s
from jobfarm_client.client import Client
from jobfarm_client.django.models import FarmTask
from jobfarm_client.errors import BadOption, FarmError, NotUnique, Refused
from jobfarm_client.models import Condition, Job

KIND = "django-task"
SEND_S = 5.0  # a request of a web page waits for it
READ_FOR_S = 10.0
# The farm remembers an Idempotency-Key for 24 hours; from then on a job is looked for by its unique_key.
REMEMBERED = timedelta(hours=23)
CLOCKS = timedelta(hours=1)  # by which the clocks of site and farm may differ
LONGEST_PAUSE_S = 300.0
AWAY_S = 10.0  # after a failure the requests of a process do not try either
ALONG = 10  # of those that wait are sent with one that arrived
log = logging.getLogger("jobfarm_client")
_away_until: dict[str, float] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class FarmOptions:
    """The OPTIONS of one backend. Nothing is checked before it is needed: a build has no token.

    `requires` and `prefers`: conditions on the labels of the workers of its tasks, as `jobfarm_client.NewJob` has them.
    """

    url: str | None = None
    token: str | None = None
    worker_key: str | None = None
    kind: str = KIND
    requires: Mapping[str, Condition] | None = None
    prefers: Mapping[str, Condition] | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "FarmOptions":
        """What the settings say; raises BadOption for a name that there is not."""
        known = cls.__dataclass_fields__.keys()
        if unknown := options.keys() - known:
            raise BadOption(f"TASKS has an option {min(unknown)!r}; there are {', '.join(sorted(known))}.")
        return cls(**options)

    def sender(self) -> Client:
        """Who submits: tries once, since what did not arrive is in the outbox. Raises BadOption."""
        return _client(self.url, self.token, 0.0)

    def reader(self) -> Client:
        """Who reads results. Raises BadOption."""
        return _client(self.url, self.token, READ_FOR_S)


@lru_cache(maxsize=16)
def _client(url: str | None, token: str | None, retry_for_s: float) -> Client:
    return Client(url, token, timeout_s=SEND_S, retry_for_s=retry_for_s)


def store(backend: str, body: dict[str, Any], options: FarmOptions) -> FarmTask:
    """Put a task into the outbox, in the caller's transaction, and send it once that is committed."""
    now = timezone.now()
    task = FarmTask(backend=backend, task=body["payload"]["task"], created_at=now, due_at=now)
    body["payload"]["id"] = task.id.hex
    task.body = {**body, "unique_key": str(task.id)}
    using = router.db_for_write(FarmTask)
    task.save(using=using, force_insert=True)
    transaction.on_commit(lambda: _send_committed(task, options), using=using, robust=True)
    return task


def _send_committed(task: FarmTask, options: FarmOptions) -> None:
    """The first try, and with it some of those that wait: where nothing else sends them, this does."""
    if time.monotonic() < _away_until.get(task.backend, 0.0):
        return
    if send(task, options):
        send_due(task.backend, options, limit=ALONG)


def send_due(backend: str, options: FarmOptions, *, limit: int | None = None) -> int:
    """Send what is due, the oldest first, until the farm does not answer; how many were sent."""
    count = 0
    for task in FarmTask.objects.filter(backend=backend, due_at__lte=timezone.now()).order_by("created_at")[:limit]:
        if not send(task, options):
            break
        count += task.job is not None
    return count


def send(task: FarmTask, options: FarmOptions) -> bool:
    """Send one task. True: the farm has answered, with a job or a refusal. False: it is tried later."""
    task.first_tried_at = task.first_tried_at or timezone.now()
    task.tries += 1
    # Stored before it is sent: whoever comes after this process must know since when the farm may know the key.
    task.save(update_fields=["first_tried_at", "tries"])
    try:
        task.job, task.due_at, task.error = _submitted(task, options.sender()), None, ""
    except FarmError as error:
        _note(task, error)
    task.save(update_fields=["job", "due_at", "error"])
    if task.due_at is not None:
        _away_until[task.backend] = time.monotonic() + AWAY_S
    return task.due_at is None


def _submitted(task: FarmTask, farm: Client) -> int:
    if timezone.now() - (task.first_tried_at or task.created_at) > REMEMBERED and (job := _earlier(task, farm)):
        return job.id
    body = dict(task.body)
    run_at = body.pop("run_at", None)
    moment = None if run_at is None else datetime.fromisoformat(run_at)
    try:
        return farm.submit(**body, run_at=moment, idempotency_key=str(task.id)).id
    except NotUnique as twin:
        if twin.job is None:
            raise
        return twin.job  # by the key that is this task's alone: an earlier try arrived


def _earlier(task: FarmTask, farm: Client) -> Job | None:
    """The job that an earlier try made, whose key the farm has forgotten."""
    for job in farm.jobs(kind=task.body["kind"]):
        if job.created_at is not None and job.created_at < task.created_at - CLOCKS:
            break
        if job.unique_key == str(task.id):
            return job
    return None


def _note(task: FarmTask, error: FarmError) -> None:
    """A refusal ends it; anything else, a wrong token included, is tried again."""
    is_final = isinstance(error, Refused) and not error.is_for_now and not isinstance(error, NotUnique)
    pause_s = delay_s(task.tries, rng=random.SystemRandom(), base_s=2.0, cap_s=LONGEST_PAUSE_S)
    task.error = f"{error.code}: {error}"
    task.due_at = None if is_final else timezone.now() + timedelta(seconds=pause_s)
    log.log(logging.ERROR if is_final else logging.WARNING, "task %s was not sent to the farm: %s", task, task.error)
