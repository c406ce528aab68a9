"""The backend of Django's tasks interface that speaks to a farm: from a task in the outbox, and the job that it became,
to the result that the interface knows."""

import re
import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from django.utils import timezone
from django.utils.module_loading import import_string

from jobfarm_client.django import interface, outbox
from jobfarm_client.django.models import FarmTask
from jobfarm_client.django.outbox import FarmOptions
from jobfarm_client.errors import NotFound
from jobfarm_client.models import Job

_STATUS: Final[Mapping[str, interface.TaskResultStatus]] = {
    "pending": interface.TaskResultStatus.READY,
    "in_progress": interface.TaskResultStatus.RUNNING,
    "success": interface.TaskResultStatus.SUCCESSFUL,
    **dict.fromkeys(("failed", "timed_out", "canceled"), interface.TaskResultStatus.FAILED),
}
# How farm_worker reports what a task raised: the class, then its traceback.
_REPORTED: Final = re.compile(r"([A-Za-z_][\w.]*)\n(Traceback .*)", re.DOTALL)
_ENDED_BY_THE_FARM: Final = "jobfarm_client.errors.JobFailed"
_REFUSED: Final = "jobfarm_client.errors.Refused"


class FarmBackend(interface.BaseTaskBackend):
    """Enqueues in the caller's transaction: a task exists if and only if that commits, whether or not the farm is
    there at that moment."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    @property
    def farm_options(self) -> FarmOptions:
        """What the settings say of the farm; raises BadOption for a name that there is not."""
        return FarmOptions.of(self.options)

    def enqueue(self, task: interface.AnyTask, args: Iterable[Any], kwargs: Mapping[str, Any]) -> interface.AnyResult:
        """Put the task into the outbox; its result, which is READY, or FAILED where the farm refused it at once.

        Raises InvalidTask, and TypeError or ValueError for arguments that are not JSON.
        """
        self.validate_task(task)
        call = {"args": interface.normalize_json(list(args)), "kwargs": interface.normalize_json(dict(kwargs))}
        options = self.farm_options
        body = {"kind": options.kind, "payload": {"task": task.module_path, **call}}
        conditions = {"requires": options.requires, "prefers": options.prefers}
        body |= {name: dict(value) for name, value in conditions.items() if value} | _options_of(task)
        result = _result(outbox.store(self.alias, body, options), None)
        interface.task_enqueued.send_robust(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> interface.AnyResult:
        """The result as it stands at the farm. Raises TaskResultDoesNotExist, and FarmError where it is away."""
        row = FarmTask.objects.filter(pk=_uuid(result_id), backend=self.alias).first()
        if row is None:
            raise interface.TaskResultDoesNotExist(result_id)
        if row.job is None:
            return _result(row, None)
        try:
            return _result(row, self.farm_options.reader().job(row.job))
        except NotFound as error:
            raise interface.TaskResultDoesNotExist(result_id) from error


def _options_of(task: interface.AnyTask) -> dict[str, Any]:
    """What the task wants otherwise than its kind at the farm has it."""
    options: dict[str, Any] = {}
    if task.queue_name != "default":
        options["queue"] = task.queue_name
    if task.priority:
        options["priority"] = task.priority
    if task.run_after is not None:
        moment = task.run_after if timezone.is_aware(task.run_after) else timezone.make_aware(task.run_after)
        options["run_at"] = moment.isoformat()
    return options


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def loaded(path: str) -> interface.AnyTask:
    """The task that is called so; raises TaskResultDoesNotExist where the code has none (any more)."""
    try:
        imported = import_string(path)
    except ImportError as error:
        raise interface.TaskResultDoesNotExist(f"There is no task {path}.") from error
    if not isinstance(imported, interface.Task):
        raise interface.TaskResultDoesNotExist(f"{path} is not a task.")
    return imported


def report(error: BaseException, formatted: str) -> str:
    """What a failed attempt is told to the farm, such that `_error` knows the class again."""
    return f"{type(error).__module__}.{type(error).__qualname__}\n{formatted}"


def made(
    task: interface.AnyTask, payload: Mapping[str, Any], *, value: Any = None, **facts: Any
) -> interface.AnyResult:
    """The result of this task, called as its job's payload says."""
    result: interface.AnyResult = interface.TaskResult(
        task=task, args=payload["args"], kwargs=payload["kwargs"], backend=task.backend, **facts
    )
    object.__setattr__(result, "_return_value", value)
    return result


def _result(row: FarmTask, job: Job | None) -> interface.AnyResult:
    """The result as it stands: of the job, or of a task that the farm does not have yet, or does not take."""
    run_at = row.body.get("run_at")
    task = loaded(row.task).using(
        priority=row.body.get("priority", 0),
        queue_name=row.body.get("queue", "default"),
        run_after=None if run_at is None else datetime.fromisoformat(run_at),
        backend=row.backend,
    )
    facts = _unsent(row) if job is None else _as_it_runs(job)
    value = None if job is None else job.result
    return made(task, row.body["payload"], value=value, id=str(row.id), enqueued_at=row.created_at, **facts)


def _unsent(row: FarmTask) -> dict[str, Any]:
    is_refused = row.due_at is None and row.job is None
    errors = [interface.TaskError(exception_class_path=_REFUSED, traceback=row.error)] if is_refused else []
    status = interface.TaskResultStatus.FAILED if is_refused else interface.TaskResultStatus.READY
    moments = dict.fromkeys(("started_at", "finished_at", "last_attempted_at"))
    return {"status": status, "errors": errors, "worker_ids": [], **moments}


def _as_it_runs(job: Job) -> dict[str, Any]:
    attempts = [attempt for attempt in reversed(job.attempts) if attempt.attempt is not None]
    errors = [_error(attempt.error) for attempt in attempts if attempt.error]
    if job.status in {"timed_out", "canceled"} or (job.status == "failed" and not errors):
        errors.append(_error(job.error or f"The job ended as {job.status}."))
    return {
        "status": _STATUS[job.status],
        "started_at": attempts[0].claimed_at if attempts else None,
        "finished_at": job.ended_at,
        "last_attempted_at": attempts[-1].claimed_at if attempts else None,
        "errors": errors,
        "worker_ids": [attempt.worker or "" for attempt in attempts],
    }


def _error(text: str) -> interface.TaskError:
    reported = _REPORTED.fullmatch(text)
    if reported is None:
        return interface.TaskError(exception_class_path=_ENDED_BY_THE_FARM, traceback=text)
    return interface.TaskError(exception_class_path=reported[1], traceback=reported[2])
