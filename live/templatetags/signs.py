"""`{% load signs %}`: the sign of a status, at the head of a page's title."""

from typing import Final

from django import template

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


@register.filter
def sign(status: str) -> str:
    """The sign of a status, with a space behind it; nothing for a word that has none."""
    return f"{SIGNS[status]} " if status in SIGNS else ""
