"""The one app that a site adds: a table of the tasks that it sent to farms."""

from collections.abc import Iterator
from typing import Any

from django.apps import AppConfig
from django.core import checks

from jobfarm_client.errors import BadOption


class FarmClientConfig(AppConfig):
    """Tables are named jobfarm_client_...: a site may well have a `django` of its own somewhere."""

    name = "jobfarm_client.django"
    label = "jobfarm_client"
    verbose_name = "Job farm"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Have `manage.py check` look at the settings of each farm: no Django asks all backends by itself."""
        checks.register(check_options)


def check_options(**_: Any) -> Iterator[checks.CheckMessage]:
    from jobfarm_client.django.backend import FarmBackend  # noqa: PLC0415 (models may be imported now)
    from jobfarm_client.django.interface import task_backends  # noqa: PLC0415

    for backend in task_backends.all():
        if not isinstance(backend, FarmBackend):
            continue
        try:
            backend.farm_options.sender()
        except BadOption as error:
            yield checks.Error(f"TASKS[{backend.alias!r}]: {error}", id="jobfarm_client.E001")
