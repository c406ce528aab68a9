"""`{% load links %}`: what has a page is a link to it, wherever it is named. Nothing named is a dash."""

from typing import Any, Final

from django import template
from django.urls import reverse
from django.utils.html import escape, format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from jobs.live_queries.common import OPERATOR

register = template.Library()
_NOTHING: Final = "–"


@register.filter
def jobs_of(value: Any, name: str) -> SafeString | str:
    """The value as a link to the list of jobs with this filter: `{{ job.kind|jobs_of:"kind" }}`."""
    return jobs_with(value, **{name: value}) if value else _NOTHING


@register.simple_tag
def jobs_with(text: Any, **filters: Any) -> SafeString:
    """A text as a link to the list of jobs with these filters."""
    return format_html('<a href="{}?{}">{}</a>', reverse("jobs:list"), urlencode(filters), text)


@register.filter
def queue_link(name: str) -> SafeString | str:
    """A link to the queue's page; its name may be broken behind a dot, and not in mid-word."""
    shown = SafeString(escape(name).replace(".", ".<wbr>"))
    return format_html('<a href="{}">{}</a>', reverse("jobs:queue", args=[name]), shown) if name else _NOTHING


@register.filter
def queue_links(names: list[str]) -> SafeString:
    return SafeString(", ".join(map(queue_link, names)))


@register.filter
def tag_links(tags: list[str]) -> SafeString:
    return SafeString(", ".join(jobs_with(tag, tag=tag) for tag in tags))


@register.simple_tag(takes_context=True)
def worker_link(context: dict[str, Any], had: Any) -> SafeString | str:
    """Who had a job or an attempt: for operators a link to the worker, for others to the jobs that they see of it."""
    if had.worker_id and context.get("audience") == OPERATOR:
        address = reverse("jobs:worker", args=[had.worker_id])
        return format_html('<a href="{}">{}</a>', address, had.worker_name)
    return jobs_of(had.worker_name, "worker")
