"""What columns and fields show."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

NOTHING: Final = "–"


def shown(
    title: str, value: Callable[[Any], Any], *, ordering: str | None = None, label: Mapping[str, str] | None = None
) -> Callable[[Any, Any], Any]:
    """A column or a field that shows what `value` makes of a row: computed once, however often the page asks (unfold's
    template does five times), and kept on the row, which lives as long as the request."""

    def cell(_: Any, row: Any) -> Any:
        kept: dict[Any, Any] = row.__dict__.setdefault("_shown", {})
        if value not in kept:
            kept[value] = value(row)
        return kept[value]

    described: Callable[[Any, Any], Any] = display(description=title, ordering=ordering, label=label)(cell)
    return described


def link(page: str, pk: object, text: object = None) -> SafeString | str:
    """A link to a row's page, by its number unless `text` says otherwise; `page` is like `jobs_job`. A dash where there
    is no row."""
    if pk is None:
        return NOTHING
    return format_html('<a href="{}">{}</a>', reverse(f"admin:{page}_change", args=[pk]), text or f"#{pk}")


def listed(page: str, text: str, **narrowed: object) -> SafeString:
    """A link to the list of such rows, narrowed so; `page` is like `jobs_job`."""
    return format_html('<a href="{}">{}</a>', reverse(f"admin:{page}_changelist", query=narrowed), text)
