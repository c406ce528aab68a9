"""How a worker in a site runs the tasks that the site sent to the farm."""

import socket
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from django.db import connections
from django.utils import timezone

from jobfarm_client.django import interface, results
from jobfarm_client.django.backend import FarmBackend
from jobfarm_worker import Failed, Job


def handler(alias: str) -> Callable[[Job], Any]:
    """The function that runs the tasks of this backend, each in a thread of its own."""

    def run(job: Job) -> Any:
        try:
            return _run(job, alias)
        finally:
            connections.close_all()  # the thread ends, and its connections would stay open

    return run


def _run(job: Job, alias: str) -> Any:
    """Raises Failed with what the task raised; for good where the site has no such task, which another try is not
    going to find. What a receiver of a signal raises is Django's to log: the task has run, and is not to run again."""
    task, call = _task(job, alias), job.payload
    started = _result(job, task)
    interface.task_started.send_robust(FarmBackend, task_result=started)
    context = [interface.TaskContext(task_result=started)] if task.takes_context else []
    try:
        value = interface.normalize_json(task.call(*context, *call["args"], **call["kwargs"]))
    except Exception as error:
        if job.attempt >= (job.max_attempts or 1):
            interface.task_finished.send_robust(FarmBackend, task_result=_failed(started, error))
        raise Failed(results.report(error, traceback.format_exc())) from error
    interface.task_finished.send_robust(FarmBackend, task_result=_succeeded(started, value))
    return value


def _task(job: Job, alias: str) -> interface.AnyTask:
    try:
        return results.loaded(job.payload["task"]).using(backend=alias)
    except (interface.TaskResultDoesNotExist, KeyError, TypeError) as error:
        raise Failed(f"This is no task of this site: {error}", retryable=False) from error


def _result(job: Job, task: interface.AnyTask) -> interface.AnyResult:
    now = timezone.now()
    return results.made(
        task, job.payload, id=str(job.payload.get("id", job.id)), status=interface.TaskResultStatus.RUNNING,
        enqueued_at=None, started_at=now, last_attempted_at=now, finished_at=None, errors=[],
        worker_ids=[socket.gethostname()] * job.attempt,
    )  # fmt: skip


def _succeeded(started: interface.AnyResult, value: Any) -> interface.AnyResult:
    result = replace(started, status=interface.TaskResultStatus.SUCCESSFUL, finished_at=timezone.now())
    object.__setattr__(result, "_return_value", value)
    return result


def _failed(started: interface.AnyResult, error: Exception) -> interface.AnyResult:
    path, _, formatted = results.report(error, traceback.format_exc()).partition("\n")
    errors = [interface.TaskError(exception_class_path=path, traceback=formatted)]
    return replace(started, status=interface.TaskResultStatus.FAILED, finished_at=timezone.now(), errors=errors)
