from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules


class SchedulingConfig(AppConfig):
    name = "scheduling"
    verbose_name = "Scheduling"

    def ready(self) -> None:
        from scheduling import backend  # noqa: F401, PLC0415 (it makes itself known, and needs the models)

        if settings.SCHEDULING["CRONS"]:
            autodiscover_modules("crons")
            post_migrate.connect(_make_rows, sender=self)


def _make_rows(**_: Any) -> None:
    from scheduling import operations  # noqa: PLC0415 (models are not loaded when this module is)

    operations.sync_crons()
