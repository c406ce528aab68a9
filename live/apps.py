from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, register
from django.template import TemplateDoesNotExist
from django.template.loader import get_template
from django.utils.module_loading import autodiscover_modules


class LiveConfig(AppConfig):
    """Finds the live queries of every app in its `live_queries.py`, and checks how they are declared."""

    name = "live"
    verbose_name = "Live queries"

    def ready(self) -> None:
        register(check_live_queries)
        autodiscover_modules("live_queries")


def check_live_queries(**_: Any) -> list[CheckMessage]:
    """Find queries that nobody may see (E001) and templates that do not exist (E002)."""
    from live import registry  # noqa: PLC0415  # models are not ready when this module is loaded

    queries = registry.everything()
    hidden: list[CheckMessage] = [
        Error(
            f"Nobody may see the live query {query.name!r}.", hint="Decorate a function with may_see.", id="live.E001"
        )
        for query in queries
        if query.rights is None
    ]
    return hidden + [
        Error(f"The live query {query.name!r} names a template that does not exist: {query.template}", id="live.E002")
        for query in queries
        if isinstance(query, registry.StateQuery) and not _exists(query.template)
    ]


def _exists(template: str | None) -> bool:
    try:
        return template is None or get_template(template) is not None
    except TemplateDoesNotExist:
        return False
