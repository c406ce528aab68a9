"""The app `webhooks`."""

import importlib
import pkgutil

from django.apps import AppConfig


class WebhooksConfig(AppConfig):
    """The inbox and what its deliveries write."""

    name = "webhooks"
    verbose_name = "Webhooks"

    def ready(self) -> None:
        """Import every module of `webhooks.handlers`, which makes its handlers known."""
        from webhooks import handlers  # noqa: PLC0415 (they import models, which are not loaded with this module)

        for module in pkgutil.iter_modules(handlers.__path__):
            importlib.import_module(f"webhooks.handlers.{module.name}")
