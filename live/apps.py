from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class LiveConfig(AppConfig):
    """Finds the live queries of every app in its `live_queries.py`, and checks how they are declared."""

    name = "live"
    verbose_name = "Live queries"

    def ready(self) -> None:
        from live import checks  # noqa: F401, PLC0415  # models and templates are ready only now

        autodiscover_modules("live_queries")
