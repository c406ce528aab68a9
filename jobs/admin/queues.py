"""Queues: pause, resume, bound."""

from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.models import LogEntry
from django.core.validators import MaxValueValidator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin
from unfold.decorators import display

from core import administration, people
from jobs import live_queries, operations
from jobs.admin import common
from jobs.models import Queue
from jobs.operations.queues import HIGHEST_CEILING
from jobs.queries import pages
from live import html


@admin.register(Queue)
class QueueAdmin(common.Operated, ModelAdmin):  # type: ignore[misc]  # unfold ships no types
    """Where jobs wait. A queue exists once a kind or a worker names it, and stays."""

    list_display = ["name", "state", "ceiling", "its_jobs", "created_at"]
    list_filter = [("paused_at", admin.EmptyFieldListFilter)]
    search_fields = ["name"]
    fields = ["name", "live_state", "its_jobs", "ceiling"]
    readonly_fields = ["name", "live_state", "its_jobs"]
    actions = ["pause", "resume"]

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002  # the admin's signature
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Never: jobs and workers name it."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        return self.has_operate_permission(request)

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> forms.Field | None:
        """The ceiling with its bound, which the operation would refuse later."""
        field: forms.Field | None = super().formfield_for_dbfield(db_field, request, **kwargs)
        if field is not None and db_field.name == "ceiling":
            field.validators.append(MaxValueValidator(HIGHEST_CEILING))
        return field

    def save_model(self, request: HttpRequest, obj: Queue, form: Any, change: bool) -> None:  # noqa: ARG002
        """Only the ceiling is a field; the operation moves the slots along and says who did it."""
        operations.set_ceiling(obj.name, obj.ceiling, by=people.person(request))

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> LogEntry | None:  # noqa: ARG002
        """Nothing: the operation has written its own line."""
        return None

    @display(description="Status", label={"paused": "warning", "open": "success"})  # type: ignore[untyped-decorator]
    def state(self, queue: Queue) -> str:
        return "paused" if queue.paused_at else "open"

    @display(description="Status")  # type: ignore[untyped-decorator]
    @administration.once
    def live_state(self, queue: Queue) -> SafeString:
        whose = {"whose": pages.EVERYBODY, "queue": queue.name}
        return html.wrapper("queue", whose, audience=live_queries.OPERATOR)

    @display(description="Jobs")  # type: ignore[untyped-decorator]
    def its_jobs(self, queue: Queue) -> SafeString:
        return format_html(
            '<a href="{}?{}">jobs</a>', reverse("admin:jobs_job_changelist"), urlencode({"queue": queue.name})
        )

    @admin.action(description="Pause", permissions=["operate"])
    def pause(self, request: HttpRequest, queryset: QuerySet[Queue]) -> HttpResponse | None:
        texts = {"title": "Pause these queues?", "button": "Pause them"}
        return self._each(request, queryset, operations.pause, word="Paused", texts=texts)

    @admin.action(description="Resume", permissions=["operate"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Queue]) -> HttpResponse | None:
        texts = {"title": "Resume these queues?", "button": "Resume them"}
        return self._each(request, queryset, operations.resume, word="Resumed", texts=texts)

    def _each(
        self, request: HttpRequest, queryset: QuerySet[Queue], do: Any, *, word: str, texts: dict[str, str]
    ) -> HttpResponse | None:
        names = [queue.name for queue in queryset]
        if question := administration.carry_out(self, request, lines=names, **texts):
            return question
        for name in names:
            do(name, by=people.person(request))
        self.message_user(request, f"{word}: {', '.join(names)}.", messages.SUCCESS)
        return None
