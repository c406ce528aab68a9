"""The app `ratelimits`."""

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class RatelimitsConfig(AppConfig):
    """Rate limits; finds those that the apps declare in their `limits.py`."""

    name = "ratelimits"
    verbose_name = "Rate limits"

    def ready(self) -> None:
        autodiscover_modules("limits")
