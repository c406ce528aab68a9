"""`{% load farm %}`: durations, JSON and errors as the pages show them."""

import json
from typing import Any
from urllib.parse import urlencode

from django import template

from jobs import kinds
from jobs.domain import failures, labels, payloads
from jobs.domain.states import Status

register = template.Library()
register.filter("own_frames", failures.own_frames)
register.filter("as_query", urlencode)
register.filter("conditions", labels.in_words)

LONGEST_TEXT = 50_000  # characters of a JSON value or a traceback in a page; the API has all of it


@register.filter
def pretty(value: Any) -> str:
    """A JSON value, indented, as text (the template escapes it)."""
    return cut(json.dumps(value, indent=2, ensure_ascii=False, sort_keys=False))


@register.filter
def cut(text: str) -> str:
    """The text, or what a page holds of it with a note that it goes on."""
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}\n… cut here; the API has all of it"


@register.filter
def last_line(text: str) -> str:
    """The last line that says something: of a traceback, the error itself."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


@register.filter
def has_output_text(kind: str) -> bool:
    """Whether the output of jobs of this kind is read line by line into a text for people."""
    return kind in kinds.OUTPUT_TEXTS


@register.filter
def title(payload: Any) -> str:
    """What a job with this payload is about, as far as a page's head has room."""
    return payloads.title(payload)[:300]


@register.filter
def span(number: float) -> str:
    """A power of ten of seconds, as an axis says it: "1 ms", "10 s", "1,000 s"."""
    return f"{number * 1000:.0f} ms" if number < 1 else f"{number:,.0f} s"


@register.filter
def mood(status: str) -> str:
    """The class of a progress bar in this state: "good", "bad" or none."""
    return {Status.SUCCESS: "good", Status.FAILED: "bad", Status.TIMED_OUT: "bad"}.get(Status(status), "")
