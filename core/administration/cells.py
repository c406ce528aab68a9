"""What columns and fields show: links and long texts."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

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
