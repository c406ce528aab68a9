"""A backend for Django's tasks interface (`django.tasks`; before Django 6 `django_tasks`), run by this scheduler.

    TASKS = {"default": {"BACKEND": "scheduling.backend.SchedulingBackend", "OPTIONS": {"TIMEOUT_S": 600}}}

A `@task` is an action whose writes are not watched; `@task(mutation=True)` makes it a mutation. What that interface
has no word for, canceled and unknown, is FAILED there, and the error's class says which (scheduling.errors).
"""

import json
import logging
import re
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, fields
from inspect import iscoroutinefunction
from typing import Any

from django.db import DatabaseError, connection, transaction
from django.dispatch import Signal
from django.utils.module_loading import import_string

from core.refusal import sentence_of
from postgres import clock
from scheduling import django_tasks as tasks, registry
from scheduling.domain import calls
from scheduling.domain.calls import ENDED, Kind, Status
from scheduling.errors import BadMoment, Canceled, NotJson, OutcomeUnknown
from scheduling.models import ScheduledFunction
from scheduling.operations.functions import insert
from scheduling.queries import functions
from scheduling.queries.functions import NewFunction
from scheduling.registry import Call

log = logging.getLogger(__name__)

_STATUS: Mapping[str, tasks.TaskResultStatus] = {
    **dict.fromkeys(Status, tasks.TaskResultStatus.FAILED),
    Status.PENDING: tasks.TaskResultStatus.READY,
    Status.IN_PROGRESS: tasks.TaskResultStatus.RUNNING,
    Status.SUCCESS: tasks.TaskResultStatus.SUCCESSFUL,
}
_ERRORS = {Status.CANCELED: Canceled, Status.UNKNOWN: OutcomeUnknown}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingTask(tasks.AnyTask):
    """A task with what only this backend knows: `@task(mutation=True)`, `@task(timeout_s=60)`."""

    mutation: bool = False
    timeout_s: float | None = None


class SchedulingBackend(tasks.BaseTaskBackend):
    """Enqueues in the caller's transaction: a task exists if and only if that commits."""

    task_class = SchedulingTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def validate_task(self, task: tasks.AnyTask) -> None:
        """Raises InvalidTask, as the interface says; an async mutation could not keep its transaction."""
        super().validate_task(task)
        if _is_mutation(task) and iscoroutinefunction(task.func):
            raise tasks.InvalidTask("A mutation cannot be async: its transaction belongs to one thread.")

    def enqueue(self, task: tasks.AnyTask, args: Iterable[Any], kwargs: Mapping[str, Any]) -> tasks.AnyResult:
        """Schedule the task and return its result, which is READY. Raises InvalidTask, and TypeError or ValueError for
        arguments that are not JSON."""
        self.validate_task(task)
        call = {"args": tasks.normalize_json(list(args)), "kwargs": tasks.normalize_json(dict(kwargs))}
        try:
            stored = calls.json_value(call, name=task.module_path, part="arguments")
            run_at = None if task.run_after is None else calls.moment(task.run_after, now=clock.now())
        except NotJson as refusal:
            raise ValueError(refusal.message) from refusal
        except BadMoment as refusal:
            raise tasks.InvalidTask(refusal.message) from refusal
        new = NewFunction(
            function=task.module_path, kind=Kind.MUTATION if _is_mutation(task) else Kind.ACTION,
            args=json.dumps(stored), run_at=run_at, queue=task.queue_name, priority=task.priority,
            task_backend=self.alias,
        )  # fmt: skip
        [row] = insert([new])
        result = self.result_of(row, task=task)
        _notify(tasks.task_enqueued, self, result)
        return result

    def get_result(self, result_id: str) -> tasks.AnyResult:
        """The result as it is now, also of a task that is gone from the code. Raises TaskResultDoesNotExist."""
        row = functions.find(int(result_id)) if re.fullmatch("[0-9]{1,18}", result_id) else None
        if row is None or row.task_backend != self.alias:
            raise tasks.TaskResultDoesNotExist(result_id)
        return self.result_of(row, task=_find(row.function) or _gone(row))

    def timeout_s(self, task: tasks.AnyTask) -> float | None:
        """How long this task may take: its own timeout, or the backend's option TIMEOUT_S; else any time."""
        own = getattr(task, "timeout_s", None)
        seconds = self.options.get("TIMEOUT_S") if own is None else own
        return None if seconds is None else float(seconds)

    def result_of(self, row: ScheduledFunction, *, task: tasks.AnyTask) -> tasks.AnyResult:
        status = Status(row.status)
        later = row.run_at if row.run_at != row.created_at else None
        result: tasks.AnyResult = tasks.TaskResult(
            task=_changed(task, priority=row.priority, queue_name=row.queue, run_after=later, backend=self.alias),
            id=str(row.pk), status=_STATUS[status], enqueued_at=row.created_at, started_at=row.started_at,
            finished_at=row.ended_at, last_attempted_at=row.started_at, args=row.args["args"],
            kwargs=row.args["kwargs"], backend=self.alias, errors=_errors(row, status),
            worker_ids=[row.ran_by] if row.ran_by else [],
        )  # fmt: skip
        object.__setattr__(result, "_return_value", row.result)
        return result


class Runner:
    def knows(self, name: str) -> bool:
        """Whether here is such a task, if one that cannot be imported."""
        try:
            _load(name)
        except (Exception, SystemExit) as error:  # whatever a module does when it is imported
            return not isinstance(error, ImportError | tasks.InvalidTask)
        return True

    def timeout_s(self, call: Call) -> float | None:
        """How long the task may take; a task that cannot be found fails soon enough."""
        task = _find(call.function)
        return None if task is None else _backend(call).timeout_s(task)

    def run(self, call: Call) -> Any:
        backend, task = _backend(call), _load(call.function)
        result = self._started(backend, call, task)
        _notify(tasks.task_started, backend, result)
        context = [tasks.TaskContext(task_result=result)] if task.takes_context else []
        return tasks.normalize_json(task.call(*context, *call.args["args"], **call.args["kwargs"]))

    def ended(self, function_id: int, raised: BaseException | None = None) -> None:
        """Send the interface's signals; whatever goes wrong is logged."""
        row = functions.find(function_id)
        if row is None or row.task_backend is None or row.status not in ENDED:
            return
        try:
            backend, unwell = tasks.task_backends[row.task_backend], _ERRORS.get(Status(row.status))
            _send_finished(backend, backend.get_result(str(row.pk)), raised or (unwell() if unwell else None))
        except Exception:
            log.exception("task_finished could not be sent for task %s", function_id)

    def _started(self, backend: SchedulingBackend, call: Call, task: tasks.AnyTask) -> tasks.AnyResult:
        row = functions.find(call.id)
        assert row is not None
        if call.kind is Kind.MUTATION:  # its row says so only when it is over
            row.status, row.started_at, row.ran_by = Status.IN_PROGRESS, clock.now(), call.ran_by
        return backend.result_of(row, task=task)


registry.interfaces.tasks = Runner()


def _backend(call: Call) -> SchedulingBackend:
    backend = tasks.task_backends[call.task_backend or ""]
    assert isinstance(backend, SchedulingBackend)
    return backend


def _load(path: str) -> tasks.AnyTask:
    imported = import_string(path)
    if not isinstance(imported, tasks.Task):
        raise tasks.InvalidTask(f"{path} is not a task.")
    return imported


def _find(path: str) -> tasks.AnyTask | None:
    """The task, or None: whatever a module raises when it is imported, what was enqueued is still there."""
    try:
        return _load(path)
    except (Exception, SystemExit):
        return None


def _gone(row: ScheduledFunction) -> tasks.AnyTask:
    """What stands for a task that the code does not have any more: its name, and a refusal to be called."""

    def gone(*_: Any, **__: Any) -> None:
        _load(row.function)

    gone.__module__, _, gone.__name__ = row.function.rpartition(".")
    gone.__qualname__ = gone.__name__
    return _built(SchedulingTask, func=gone, mutation=row.kind == Kind.MUTATION)


def _changed(task: tasks.AnyTask, **changes: Any) -> tasks.AnyTask:
    return _built(type(task), **{field.name: getattr(task, field.name) for field in fields(task)} | changes)


def _built(kind: type[tasks.AnyTask], **values: Any) -> tasks.AnyTask:
    """A task as it was enqueued. Past what makes and checks one: settings may have fewer queues by now, and for
    `using` a `run_after` of None is no change."""
    task = object.__new__(kind)
    for field in fields(kind):
        object.__setattr__(task, field.name, values.get(field.name, field.default))
    return task


def _send_finished(backend: tasks.BaseTaskBackend, result: tasks.AnyResult, raised: BaseException | None) -> None:
    """As the interface says, what was raised is handled meanwhile: receivers find it by `sys.exc_info()`."""
    if raised is None:
        _notify(tasks.task_finished, backend, result)
        return
    try:
        raise raised
    except BaseException:
        _notify(tasks.task_finished, backend, result)


def _notify(signal: Signal, backend: tasks.BaseTaskBackend, result: tasks.AnyResult) -> None:
    """Send a signal. What a receiver raises is Django's to log, and nothing to the task: also where the database
    refused it something within the task's own transaction, of which then all that receivers wrote is undone."""
    if not signal.has_listeners(type(backend)):
        return
    with transaction.atomic() if connection.in_atomic_block else nullcontext():
        answers = signal.send_robust(type(backend), task_result=result)
        if connection.in_atomic_block and any(isinstance(error, DatabaseError) for _, error in answers):
            transaction.set_rollback(True)


def _is_mutation(task: tasks.AnyTask) -> bool:
    return isinstance(task, SchedulingTask) and task.mutation


def _errors(row: ScheduledFunction, status: Status) -> list[tasks.TaskError]:
    kind = _ERRORS.get(status)
    if kind is None and status is not Status.FAILED:
        return []
    path = registry.dotted_name(kind) if kind else row.error_class or "builtins.Exception"
    text = sentence_of(kind) if kind else row.traceback or ""
    return [tasks.TaskError(exception_class_path=path, traceback=text)]
