"""Built into every template: a code as people write it, its sign in a title, and the head of a table."""

from typing import Final

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

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
_COLUMN = '<th role="columnheader" scope="col"{}>{}</th>'


@register.filter
def words(code: object) -> str:
    """A code as people write it: "in_progress" is "in progress"."""
    return str(code).replace("_", " ")


@register.simple_tag
def columns(*titles: str) -> SafeString:
    """The head of a table: a column for each title, which may have its classes behind a bar ("Attempts|number")."""
    split = [title.partition("|") for title in titles]
    cells = [(format_html(' class="{}"', of) if of else "", title) for title, _, of in split]
    row = format_html_join("", _COLUMN, cells)
    return format_html('<thead role="rowgroup"><tr role="row">{}</tr></thead>', row)


@register.filter
def sign(status: str) -> str:
    """The sign of a status, with a space behind it; nothing for a word that has none."""
    return f"{SIGNS[status]} " if status in SIGNS else ""
