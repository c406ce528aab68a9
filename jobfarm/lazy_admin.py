"""Django's administration, whose pages are found by the processes that show them."""

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.contrib.admin.apps import SimpleAdminConfig
from django.contrib.admin.checks import check_admin_app, check_dependencies
from django.core import checks


class LazyAdminConfig(SimpleAdminConfig):
    """Leaves each app's `admin` to `jobfarm.urls` and to the checks: the janitor, the clusters and the commands that
    skip the checks save a hundred modules, and with them 0.17 of the 1.7 s of their start."""

    def ready(self) -> None:
        """Register Django's checks, which look at what is registered: ours finds it first."""
        checks.register(check_dependencies, checks.Tags.admin)
        checks.register(_check_admin, checks.Tags.admin)


def _check_admin(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[checks.CheckMessage]:
    from django.contrib import admin  # noqa: PLC0415 (models are not loaded when this module is)

    admin.autodiscover()
    return check_admin_app(app_configs, **options)
