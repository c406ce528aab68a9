"""Django's tasks interface, whichever there is: `django.tasks` from Django 6 on, before it the package `django-tasks`.

The only module that imports either. They differ in the names of their errors, and may again: a name that is not found
is replaced here by a class of the same name, so that the site starts and refuses what it always refused.
"""

from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

import django

if TYPE_CHECKING or django.VERSION < (6,):
    from django_tasks import default_task_backend, exceptions, task, task_backends
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import Task, TaskContext, TaskError, TaskResult, TaskResultStatus
    from django_tasks.signals import task_enqueued, task_finished, task_started
    from django_tasks.utils import normalize_json
else:
    from django.tasks import default_task_backend, exceptions, task, task_backends
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import Task, TaskContext, TaskError, TaskResult, TaskResultStatus
    from django.tasks.signals import task_enqueued, task_finished, task_started
    from django.utils.json import normalize_json

    if django.VERSION < (6, 1):  # whose decorator takes no words of a backend's own, as mutation=True

        def task(function=None, *, backend="default", **options):
            """A function as a task of its backend; `options` are fields of that backend's class of tasks."""
            fields = {"priority": 0, "queue_name": "default", "run_after": None, "backend": backend} | options
            make = partial(task_backends[backend].task_class, **fields)
            return make(func=function) if function else lambda func: make(func=func)


if TYPE_CHECKING:
    AnyTask = Task[Any, Any]
    AnyResult = TaskResult[Any]
else:  # Django's own cannot be subscripted
    AnyTask, AnyResult = Task, TaskResult


def error(module: ModuleType, *names: str) -> type[Exception]:
    """The class that `module` has under the first of these names that it knows; under none, a new one."""
    for name in names:
        candidate = getattr(module, name, None)
        if isinstance(candidate, type) and issubclass(candidate, Exception):
            return candidate
    return type(names[0], (Exception,), {"__doc__": "No class of the tasks interface that is installed."})


InvalidTask = error(exceptions, "InvalidTask", "InvalidTaskError")  # Django's name, and that of django-tasks
TaskResultDoesNotExist = error(exceptions, "TaskResultDoesNotExist")
TaskResultMismatch = error(exceptions, "TaskResultMismatch")

__all__ = [
    "AnyResult", "AnyTask", "BaseTaskBackend", "InvalidTask", "Task", "TaskContext", "TaskError", "TaskResult",
    "TaskResultDoesNotExist", "TaskResultMismatch", "TaskResultStatus", "default_task_backend", "normalize_json",
    "task", "task_backends", "task_enqueued", "task_finished", "task_started",
]  # fmt: skip
