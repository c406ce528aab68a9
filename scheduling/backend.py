"""A backend for Django's tasks interface (`django_tasks`, the `django.tasks` of Django 6), run by this scheduler.

    TASKS = {"default": {"BACKEND": "scheduling.backend.SchedulingBackend", "OPTIONS": {"TIMEOUT_S": 600}}}

A `@task` is an action whose writes are not watched; `@task(mutation=True)` makes it a mutation. What that interface
has no word for, canceled and unknown, is FAILED there, and the error's class says which (scheduling.errors).
"""

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any

from django.utils.module_loading import import_string
from django_tasks import TaskContext, TaskResult, TaskResultStatus, task_backends
from django_tasks.backends.base import BaseTaskBackend
from django_tasks.base import Task, TaskError
from django_tasks.exceptions import InvalidTaskError, TaskResultDoesNotExist
from django_tasks.signals import task_enqueued, task_finished, task_started
from django_tasks.utils import normalize_json

from postgres import clock
from scheduling import registry
from scheduling.domain import arguments, moments
from scheduling.domain.states import ENDED, Kind, State
from scheduling.errors import BadMoment, Canceled, NotJson, OutcomeUnknown
from scheduling.models import ScheduledFunction
from scheduling.operations.scheduling import insert
from scheduling.queries import functions
from scheduling.queries.functions import NewFunction
from scheduling.registry import Call

log = logging.getLogger(__name__)

_BIGINT = 2**63 - 1
_STATUS: Mapping[str, TaskResultStatus] = {
    State.PENDING: TaskResultStatus.READY,
    State.IN_PROGRESS: TaskResultStatus.RUNNING,
    State.SUCCESS: TaskResultStatus.SUCCESSFUL,
    State.FAILED: TaskResultStatus.FAILED,
    State.CANCELED: TaskResultStatus.FAILED,
    State.UNKNOWN: TaskResultStatus.FAILED,
}
_ERRORS = {State.CANCELED: Canceled, State.UNKNOWN: OutcomeUnknown}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingTask(Task[Any, Any]):
    """A task with what only this backend knows: `@task(mutation=True)`, `@task(timeout_s=60)`."""

    mutation: bool = False
    timeout_s: float | None = None


class SchedulingBackend(BaseTaskBackend):
    """Enqueues in the caller's transaction: a task exists if and only if that commits."""

    task_class = SchedulingTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def validate_task(self, task: Task[Any, Any]) -> None:
        """Raises InvalidTaskError, as the interface says; an async mutation could not keep its transaction."""
        super().validate_task(task)
        if _is_mutation(task) and iscoroutinefunction(task.func):
            raise InvalidTaskError("A mutation cannot be async: its transaction belongs to one thread.")

    def enqueue(
        self, task: Task[Any, Any], args: Iterable[Any], kwargs: Mapping[str, Any]
    ) -> "TaskResult[Any]":
        """Schedule the task and return its result, which is READY.

        Raises InvalidTaskError, and TypeError or ValueError for arguments that are not JSON.
        """
        self.validate_task(task)
        given = {"args": normalize_json(list(args)), "kwargs": normalize_json(dict(kwargs))}
        try:
            stored = arguments.json_value(given, name=task.module_path, what="arguments")
            due_at = None if task.run_after is None else moments.moment(task.run_after, now=clock.now())
        except NotJson as refusal:
            raise ValueError(refusal.message) from refusal
        except BadMoment as refusal:
            raise InvalidTaskError(refusal.message) from refusal
        [row] = insert(
            [
                NewFunction(
                    function=task.module_path,
                    kind=Kind.MUTATION if _is_mutation(task) else Kind.ACTION,
                    args=json.dumps(stored),
                    due_at=due_at,
                    queue=task.queue_name,
                    priority=task.priority,
                    task_backend=self.alias,
                )
            ]
        )
        result = self._result(row, task=task)
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> "TaskResult[Any]":
        """The result as it is now. Raises TaskResultDoesNotExist."""
        row = functions.find(int(result_id)) if _is_id(result_id) else None
        if row is None or row.task_backend != self.alias:
            raise TaskResultDoesNotExist(result_id)
        try:
            task = _load(row.function)
        except (ImportError, InvalidTaskError) as error:
            raise TaskResultDoesNotExist(result_id) from error
        return self._result(row, task=task)

    def timeout_s(self, task: Task[Any, Any]) -> float | None:
        """How long this task may take: its own timeout, or the backend's option TIMEOUT_S; else any time."""
        own = getattr(task, "timeout_s", None)
        seconds = self.options.get("TIMEOUT_S") if own is None else own
        return None if seconds is None else float(seconds)

    def _result(self, row: ScheduledFunction, *, task: Task[Any, Any]) -> "TaskResult[Any]":
        state = State(row.state)
        later = row.due_at if row.due_at != row.created_at else None
        result: TaskResult[Any] = TaskResult(
            task=task.using(priority=row.priority, queue_name=row.queue, run_after=later, backend=self.alias),
            id=str(row.pk),
            status=_STATUS[state],
            enqueued_at=row.created_at,
            started_at=row.started_at,
            finished_at=row.ended_at,
            last_attempted_at=row.started_at,
            args=row.args["args"],
            kwargs=row.args["kwargs"],
            backend=self.alias,
            errors=_errors(row, state),
            worker_ids=[row.ran_by] if row.ran_by else [],
        )
        object.__setattr__(result, "_return_value", row.result)
        return result


class Runner:
    """How the scheduler runs the tasks of all backends of this class."""

    def timeout_s(self, call: Call) -> float | None:
        """How long the task may take; a task that cannot be found fails soon enough."""
        try:
            return _backend(call).timeout_s(_load(call.function))
        except (ImportError, InvalidTaskError):
            return None

    def run(self, call: Call) -> Any:
        """Call the task's function."""
        backend, task = _backend(call), _load(call.function)
        result = self._started(backend, call, task)
        task_started.send(type(backend), task_result=result)
        context = [TaskContext(task_result=result)] if task.takes_context else []
        return normalize_json(task.call(*context, *call.args["args"], **call.args["kwargs"]))

    def ended(self, function_id: int) -> None:
        """Say so to whoever listens to the interface's signals; what goes wrong there is theirs."""
        row = functions.find(function_id)
        if row is None or row.task_backend is None or row.state not in ENDED:
            return
        try:
            backend = task_backends[row.task_backend]
            task_finished.send(type(backend), task_result=backend.get_result(str(row.pk)))
        except Exception:
            log.exception("A receiver of task_finished failed for task %s", function_id)

    def _started(self, backend: SchedulingBackend, call: Call, task: Task[Any, Any]) -> "TaskResult[Any]":
        row = functions.find(call.id)
        assert row is not None
        if call.kind is Kind.MUTATION:  # its row says so only when it is over
            row.state, row.started_at, row.ran_by = State.IN_PROGRESS, clock.now(), call.ran_by
        return backend._result(row, task=task)  # noqa: SLF001 (the other half of the same thing)


registry.interfaces.tasks = Runner()


def _backend(call: Call) -> SchedulingBackend:
    backend = task_backends[call.task_backend or ""]
    assert isinstance(backend, SchedulingBackend)
    return backend


def _load(path: str) -> Task[Any, Any]:
    found = import_string(path)
    if not isinstance(found, Task):
        raise InvalidTaskError(f"{path} is not a task.")
    return found


def _is_mutation(task: Task[Any, Any]) -> bool:
    return isinstance(task, SchedulingTask) and task.mutation


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= _BIGINT


def _errors(row: ScheduledFunction, state: State) -> list[TaskError]:
    if state is State.FAILED:
        return [
            TaskError(
                exception_class_path=row.error_class or "builtins.Exception", traceback=row.traceback or ""
            )
        ]
    if state in _ERRORS:
        kind = _ERRORS[state]
        path = f"{kind.__module__}.{kind.__qualname__}"
        return [TaskError(exception_class_path=path, traceback=" ".join((kind.__doc__ or "").split()))]
    return []
