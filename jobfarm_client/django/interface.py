"""Django's tasks interface, whichever there is: `django.tasks` from Django 6 on, before it the package `django-tasks`.

The only module of the client that imports either.
"""

from typing import TYPE_CHECKING, Any

import django

if TYPE_CHECKING or django.VERSION < (6,):
    from django_tasks import TaskContext, TaskResult, TaskResultStatus, exceptions, task_backends
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import Task, TaskError
    from django_tasks.signals import task_enqueued, task_finished, task_started
    from django_tasks.utils import normalize_json
else:
    from django.tasks import TaskContext, TaskResult, TaskResultStatus, exceptions, task_backends
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import Task, TaskError
    from django.tasks.signals import task_enqueued, task_finished, task_started
    from django.utils.json import normalize_json

if TYPE_CHECKING:
    AnyTask = Task[Any, Any]
    AnyResult = TaskResult[Any]
else:  # Django's own cannot be subscripted
    AnyTask, AnyResult = Task, TaskResult

TaskResultDoesNotExist = exceptions.TaskResultDoesNotExist

__all__ = [
    "AnyResult", "AnyTask", "BaseTaskBackend", "Task", "TaskContext", "TaskError", "TaskResult",
    "TaskResultDoesNotExist", "TaskResultStatus", "normalize_json", "task_backends", "task_enqueued", "task_finished",
    "task_started",
]  # fmt: skip
