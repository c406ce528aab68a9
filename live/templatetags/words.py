"""Built into every template: codes, lengths of time and moments as people read them, a sign in a title, and the head
of a table."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django import template
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString

from core.values import duration

register = template.Library()
# A tab shows little more of a title than its first character. Statuses of all apps.
SIGNS: Final = {
    "pending": "…", "received": "…", "counting": "…", "ready": "…",
    "in_progress": "▶", "running": "▶",
    "success": "✓", "processed": "✓", "done": "✓",
    "failed": "✗", "dead": "✗", "rejected": "✗",
    "timed_out": "⏱", "unknown": "?", "paused": "⏸",
    "canceled": "⊘", "ignored": "⊘", "stopped": "⊘",
}  # fmt: skip
_MOMENT: Final = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d(?::\d\d)?) UTC")
_COLUMN = '<th role="columnheader" scope="col"{}>{}</th>'


@register.filter
def words(code: object) -> str:
    """A code as people write it: "in_progress" is "in progress"."""
    return str(code).replace("_", " ")


@register.filter
def took(begin: datetime | None, end: datetime | None) -> str:
    """How long it was from one moment to the other, in words; empty without both."""
    return "" if begin is None or end is None else seconds((end - begin).total_seconds())


@register.filter
def seconds(number: float | None) -> str:
    """Seconds in words: "0.8 s", "40 s", "3 min"."""
    if number is None:
        return ""
    if 0 < number < 0.1:
        return f"{number * 1000:.0f} ms"
    return f"{max(number, 0):.1f} s" if number < 10 else duration(number)


@register.filter
def moments(sentence: str) -> SafeString:
    """A sentence whose moments live.js shows as it shows others: in the zone of who reads."""
    return SafeString(_MOMENT.sub(r'<time datetime="\1T\2Z">\g<0></time>', escape(sentence)))


@register.simple_tag
def columns(*titles: str) -> SafeString:
    """The head of a table: a column for each title, which may have its classes behind a bar ("Attempts|number")."""
    split = [title.partition("|") for title in titles]
    cells = [(format_html(' class="{}"', of) if of else "", title) for title, _, of in split]
    row = format_html_join("", _COLUMN, cells)
    return format_html('<thead role="rowgroup"><tr role="row">{}</tr></thead>', row)


def badges(library: template.Library, name: str, looks: Mapping[str, tuple[str, str]]) -> Any:
    """Give an app's library a tag of this name: the badge of a status, with the colour and icon of a status of jobs
    (templates/parts/status.html) and a label."""

    def badge(status: str) -> dict[str, str]:
        like, label = looks[status]
        return {"status": like, "label": label}

    return library.inclusion_tag("parts/status.html", name=name)(badge)


@register.filter
def sign(status: str) -> str:
    """The sign of a status, with a space behind it; nothing for a word that has none."""
    return f"{SIGNS[status]} " if status in SIGNS else ""
