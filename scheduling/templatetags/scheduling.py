"""`{% load scheduling %}`: durations, JSON and times in a cron's own zone."""

import json
from datetime import datetime
from typing import Any

from django import template

register = template.Library()

LONGEST_TEXT = 50_000  # characters of a JSON value or a traceback in a page


@register.filter
def pretty(value: Any) -> str:
    """A JSON value, indented, as text (the template escapes it)."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}\n(cut here)"


@register.filter
def took(begin: datetime | None, end: datetime | None) -> str:
    """How long it was from one moment to the other: "12 ms", "3.4 s", "2 min"."""
    if begin is None or end is None:
        return ""
    seconds = max((end - begin).total_seconds(), 0.0)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


@register.filter
def short(function: str) -> str:
    """The last two parts of a dotted name."""
    return ".".join(function.split(".")[-2:])


@register.filter
def wall(moment: datetime) -> str:
    """A moment as the clock on the wall of its own zone shows it."""
    return moment.strftime("%a %d %b %Y %H:%M:%S %Z")
