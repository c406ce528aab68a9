"""The backend of Django's tasks interface that speaks to a farm."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from django.utils import timezone

from jobfarm_client.django import interface, outbox, results
from jobfarm_client.django.models import FarmTask
from jobfarm_client.django.options import FarmOptions
from jobfarm_client.errors import NotFound


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
        body |= _conditions_of(options) | _options_of(task)
        result = results.of(outbox.store(self.alias, body, options), None)
        interface.task_enqueued.send_robust(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> interface.AnyResult:
        """The result as it stands at the farm. Raises TaskResultDoesNotExist, and FarmError where it is away."""
        row = FarmTask.objects.filter(pk=_uuid(result_id), backend=self.alias).first()
        if row is None:
            raise interface.TaskResultDoesNotExist(result_id)
        if row.job is None:
            return results.of(row, None)
        try:
            return results.of(row, self.farm_options.reader().job(row.job))
        except NotFound as error:
            raise interface.TaskResultDoesNotExist(result_id) from error


def _conditions_of(options: FarmOptions) -> dict[str, Any]:
    named = {"requires": options.requires, "prefers": options.prefers}
    return {name: dict(conditions) for name, conditions in named.items() if conditions}


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
