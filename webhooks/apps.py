"""The app `webhooks`."""

import importlib
import pkgutil

from django.apps import AppConfig


class WebhooksConfig(AppConfig):
    """The inbox and what its deliveries write."""

    name = "webhooks"
    verbose_name = "Webhooks"

    def ready(self) -> None:
        """Import every module of `webhooks.handlers`, which makes its handlers known, and register the checks."""
        from webhooks import checks, handlers  # noqa: F401, PLC0415 (they import models, which are not loaded yet)

        for module in pkgutil.iter_modules(handlers.__path__):
            importlib.import_module(f"webhooks.handlers.{module.name}")
