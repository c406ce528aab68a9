import importlib
import pkgutil

from django.apps import AppConfig


class WebhooksConfig(AppConfig):
    name = "webhooks"
    verbose_name = "Webhooks"

    def ready(self) -> None:
        # These import models, which are not loaded when this module is.
        from jobs import operations as jobs  # noqa: PLC0415
        from webhooks import handlers  # noqa: PLC0415
        from webhooks.queries import inbox  # noqa: PLC0415

        jobs.score_also("source", inbox.day_of_sources)
        for module in pkgutil.iter_modules(handlers.__path__):
            importlib.import_module(f"webhooks.handlers.{module.name}")
