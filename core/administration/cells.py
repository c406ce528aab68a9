"""What columns and fields show: links and long texts."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final, TypeVar

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

Shown = TypeVar("Shown")

NOTHING: Final = "–"


def once(show: Callable[[Any, Any], Shown]) -> Callable[[Any, Any], Shown]:
    """Decorate what a field shows of a row: computed once, however often the page's template asks (unfold's does five
    times). Kept on the row, which lives as long as the request."""

    @wraps(show)
    def shown(page: Any, row: Any) -> Shown:
        kept: dict[str, Shown] = row.__dict__.setdefault("_shown", {})
        if show.__name__ not in kept:
            kept[show.__name__] = show(page, row)
        return kept[show.__name__]

    return shown


def shown(
    title: str, value: Callable[[Any], Any], *, ordering: str | None = None, label: Mapping[str, str] | None = None
) -> Callable[[Any, Any], Any]:
    """A column or a field that shows what `value` makes of a row, computed once."""

    def cell(_: Any, row: Any) -> Any:
        kept: dict[Any, Any] = row.__dict__.setdefault("_shown", {})
        if value not in kept:
            kept[value] = value(row)
        return kept[value]

    described: Callable[[Any, Any], Any] = display(description=title, ordering=ordering, label=label)(cell)
    return described


def link(page: str, pk: object, text: object) -> SafeString | str:
    """A link to a row's page; `page` is like `jobs_job`. A dash where there is no row."""
    if pk is None:
        return NOTHING
    return format_html('<a href="{}">{}</a>', reverse(f"admin:{page}_change", args=[pk]), text)


def preformatted(text: str) -> SafeString:
    return format_html('<pre class="code" tabindex="0" role="group" aria-label="Text">{}</pre>', text)


def folded(summary: str, text: str) -> SafeString | str:
    """A text of which one line is shown until somebody opens it; a dash for an empty one."""
    if not text:
        return NOTHING
    return format_html("<details><summary>{}</summary>{}</details>", summary, preformatted(text))
