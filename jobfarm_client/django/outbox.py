"""Tasks on their way to a farm: stored with what enqueued them, sent when that is committed, and sent later where the
farm was away, each of them once."""

import logging
import random
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.db import router, transaction
from django.db.models import QuerySet
from django.utils import timezone

from jobfarm_client.backoff import delay_s
from jobfarm_client.client import Client
from jobfarm_client.django.models import FarmTask
from jobfarm_client.django.options import FarmOptions
from jobfarm_client.errors import FarmError, NotUnique, Refused
from jobfarm_client.models import Job

# The farm remembers an Idempotency-Key for 24 hours; from then on a job is looked for by its unique_key.
REMEMBERED = timedelta(hours=23)
CLOCKS = timedelta(hours=1)  # by which the clocks of site and farm may differ
LONGEST_PAUSE_S = 300.0
AWAY_S = 10.0  # after a failure the requests of a process do not try either
ALONG = 10  # of those that wait are sent with one that arrived
log = logging.getLogger("jobfarm_client")
_away_until: dict[str, float] = {}


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


def due(backend: str) -> QuerySet[FarmTask]:
    """Tasks of a backend that are to be sent now, the oldest first."""
    return FarmTask.objects.filter(backend=backend, due_at__lte=timezone.now()).order_by("created_at")


def send_due(backend: str, options: FarmOptions, *, limit: int | None = None) -> int:
    """Send what waits, until the farm does not answer; how many were sent."""
    count = 0
    for task in due(backend)[:limit]:
        if not send(task, options):
            break
        count += task.job is not None
    return count


def keep_sending(
    backend: str, options: FarmOptions, *, stop: threading.Event, every_s: float, cleanup: Callable[[], None]
) -> None:
    """Send what waits every so often, until `stop`; `cleanup` after each round gives up the connection."""
    while not stop.wait(every_s):
        try:
            send_due(backend, options)
        except Exception:
            log.exception("tasks that wait for the farm could not be sent")
        finally:
            cleanup()


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
