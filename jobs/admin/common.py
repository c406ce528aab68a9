"""What the administration's pages of jobs share: who may act, jobs that are named in lists, and a key shown once."""

from collections.abc import Callable
from typing import Any

from django.forms import Script
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin

from core import administration
from jobs import live_queries
from live import html
from postgres import transactions


class LiveMedia:
    """What a page with the output of a job loads."""

    js = (Script("jobs/jobs.js", defer=True),)


class Operated:
    """Whose actions are for who runs the farm."""

    def has_operate_permission(self, request: HttpRequest, object_id: Any = None) -> bool:  # noqa: ARG002
        """Who may cancel jobs and try them again, pause and bound queues, make workers, change and revoke keys."""
        return request.user.has_perm("jobs.operate_job")

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Django's, which is one transaction: what is sent is done again when that collides."""
        view = super().changeform_view  # type: ignore[misc]  # of the ModelAdmin that this is mixed into
        return (transactions.retried(view) if request.method == "POST" else view)(request, *args, **kwargs)

    def for_one(
        self: Any, request: HttpRequest, pk: str, title: str, button: str,
        *, lines: Callable[[Any], list[str]], do: Callable[[Any], HttpResponse],
    ) -> HttpResponse:  # fmt: skip
        """Do something to one, after a question whose `lines` say what it means."""
        one = self.get_object(request, pk)
        if one is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, pk)  # type: ignore[no-any-return]
        question = administration.carry_out(self, request, title=title, lines=lines(one), button=button)
        return question or do(one)


def live(title: str, query: str, of: Callable[[Any], dict[str, Any]], **more: Any) -> Any:
    """A field that shows a live query of the site, with these arguments `of` the row."""
    return administration.shown(
        title, lambda row: html.wrapper(query, of(row), **{"audience": live_queries.MEMBER} | more)
    )


def job_link(pk: int | None) -> SafeString | str:
    return administration.link("jobs_job", pk, f"#{pk}")


def output_link(job_id: int, fence: int) -> SafeString:
    return format_html('<a href="{}">Output as text</a>', reverse("jobs:output", args=[job_id, fence]))


def key_page(admin: ModelAdmin, request: HttpRequest, *, worker: Any, key: str) -> TemplateResponse:
    """A worker's key, shown in this answer and never again."""
    farm = request.build_absolute_uri("/").rstrip("/")
    context = {
        **admin.admin_site.each_context(request),
        "title": f"The key of {worker}",
        "opts": admin.opts,
        "worker": worker,
        "key": key,
        "command": f"python -m jobfarm_worker --url {farm} --key {key} --handler chat",
    }
    return TemplateResponse(request, "admin/jobs/key.html", context)
