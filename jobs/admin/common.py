"""What the administration's pages of jobs share: who may act, and jobs that are named in lists."""

from collections.abc import Callable
from typing import Any

from django.forms import Script
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from core import administration
from jobs import live_queries
from live import html
from postgres import transactions


class LiveMedia:
    """What a page with the output of a job loads."""

    js = (Script("jobs/jobs.js", defer=True),)


class Operated(administration.Operated):
    """Whose actions are for who runs the farm."""

    operate = "jobs.operate_job"

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Django's, which is one transaction: what is sent is done again when that collides."""
        view = super().changeform_view  # type: ignore[misc]  # of the ModelAdmin that this is mixed into
        return (transactions.retried(view) if request.method == "POST" else view)(request, *args, **kwargs)


def live(title: str, query: str, of: Callable[[Any], dict[str, Any]], **more: Any) -> Any:
    """A field that shows a live query of the site, with these arguments `of` the row."""
    return administration.shown(
        title, lambda row: html.wrapper(query, of(row), **{"audience": live_queries.MEMBER} | more)
    )


def job_link(pk: int | None) -> SafeString | str:
    return administration.link("jobs_job", pk, f"#{pk}")


def output_link(job_id: int, fence: int) -> SafeString:
    return format_html('<a href="{}">Output as text</a>', reverse("jobs:output", args=[job_id, fence]))
