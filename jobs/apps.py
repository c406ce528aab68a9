"""The app `jobs`."""

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules


class JobsConfig(AppConfig):
    name = "jobs"
    verbose_name = "Jobs"

    def ready(self) -> None:
        """Find the kinds that the apps declare in their `kinds.py` and `hooks.py`."""
        from accounts.operations import handed_over  # noqa: PLC0415 (models are not loaded when this module is)
        from jobs.operations.one import revoke_view_tokens_of  # noqa: PLC0415
        from jobs.operations.workers import revoke_all_of  # noqa: PLC0415

        autodiscover_modules("kinds", "hooks")
        handed_over.extend([revoke_all_of, revoke_view_tokens_of])
        post_migrate.connect(_make_queues, sender=self)


def _make_queues(**_: Any) -> None:
    from jobs import operations  # noqa: PLC0415 (models are not loaded when this module is)

    operations.sync()
