"""Queues: pause, resume, bound, share out; who has how large a share, and whose jobs are paused."""

from typing import Any, Final
from urllib.parse import urlencode

from django import forms
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.core.validators import MaxValueValidator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from unfold.admin import ModelAdmin

from core import administration, people
from jobs import live_queries, operations
from jobs.admin import common
from jobs.models import ConcurrencyKey, PausedOwner, Queue, Weight
from jobs.operations.queues import HIGHEST_CEILING, LONGEST_AGE_S
from jobs.queries import pages

_HIGHEST: Final = {"ceiling": HIGHEST_CEILING, "of_key": HIGHEST_CEILING, "ages_after": LONGEST_AGE_S}


def _pause(request: HttpRequest, row: Any) -> str:
    (operations.pause if isinstance(row, Queue) else operations.pause_key)(row.pk, by=people.person(request))
    return "paused"


def _resume(request: HttpRequest, row: Any) -> str:
    (operations.resume if isinstance(row, Queue) else operations.resume_key)(row.pk, by=people.person(request))
    return "resumed"


class Pausable(common.Operated):
    """Rows whose waiting jobs may be paused: queues and concurrency keys."""

    actions = ["pause", "resume"]

    state = administration.shown(
        "Status", lambda row: "paused" if row.paused_at else "open", label={"paused": "warning", "open": "success"}
    )
    pause = administration.on_each("Pause {}", _pause, line=str)
    resume = administration.on_each("Resume {}", _resume, line=str)


@admin.register(Queue)
class QueueAdmin(Pausable, ModelAdmin):  # type: ignore[misc]  # unfold ships no types
    """Where jobs wait. A queue exists once a kind or a worker names it, and stays."""

    list_display = ["name", "state", "ceiling", "fair", "its_jobs", "created_at"]
    list_filter = [("paused_at", admin.EmptyFieldListFilter), "fair"]
    search_fields = ["name"]
    fields = ["name", "live_state", "its_jobs", "ceiling", "of_key", "fair", "ages_after"]
    readonly_fields = ["name", "live_state", "its_jobs"]

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002  # the admin's signature
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Never: jobs and workers name it."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        return self.has_operate_permission(request)

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> forms.Field | None:
        """Numbers with their bounds, which the operations would refuse later."""
        field: forms.Field | None = super().formfield_for_dbfield(db_field, request, **kwargs)
        if field is not None and db_field.name in _HIGHEST:
            field.validators.append(MaxValueValidator(_HIGHEST[db_field.name]))
        return field

    def save_model(self, request: HttpRequest, obj: Queue, form: Any, change: bool) -> None:  # noqa: ARG002
        """The operations count what runs already, and say who did it."""
        if "ceiling" in form.changed_data:
            operations.set_ceiling(obj.name, obj.ceiling, by=people.person(request))
        if "of_key" in form.changed_data:
            operations.bound_keys(obj.name, obj.of_key, by=people.person(request))
        if "fair" in form.changed_data:
            operations.set_fair(obj.name, obj.fair, by=people.person(request))
        if "ages_after" in form.changed_data:
            operations.set_ages_after(obj.name, obj.ages_after, by=people.person(request))

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> LogEntry | None:  # noqa: ARG002
        """Nothing: the operation has written its own line."""
        return None

    live_state = common.live(
        "Status", "queue", lambda queue: {"whose": pages.EVERYBODY, "queue": queue.name}, audience=live_queries.OPERATOR
    )
    its_jobs = administration.shown(
        "Jobs",
        lambda queue: format_html(
            '<a href="{}?{}">jobs</a>', reverse("admin:jobs_job_changelist"), urlencode({"queue": queue.name})
        ),
    )


@admin.register(Weight)
class WeightAdmin(ModelAdmin):  # type: ignore[misc]
    """How large a person's or a group's share of every fair queue is; without a row it is 1."""

    list_display = ["__str__", "owner", "group", "weight"]
    list_select_related = ["owner", "group"]
    search_fields = ["owner__username", "group__name"]
    raw_id_fields = ["owner", "group"]


@admin.register(PausedOwner)
class PausedOwnerAdmin(ModelAdmin):  # type: ignore[misc]
    """People whose jobs are paused: who is added here waits, who is deleted goes on."""

    list_display = ["owner", "paused_at", "paused_by"]
    list_select_related = ["owner", "paused_by"]
    search_fields = ["owner__username"]
    fields = autocomplete_fields = ["owner"]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        return False

    def save_model(self, request: HttpRequest, obj: PausedOwner, form: Any, change: bool) -> None:  # noqa: ARG002
        operations.pause_owner(obj.owner, by=people.person(request))

    def delete_model(self, request: HttpRequest, obj: PausedOwner) -> None:
        operations.resume_owner(obj.owner, by=people.person(request))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[PausedOwner]) -> None:
        for row in queryset:
            self.delete_model(request, row)

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> LogEntry | None:  # noqa: ARG002
        """Nothing: the operation has written its own line, in the person's history."""
        return None


@admin.register(ConcurrencyKey)
class ConcurrencyKeyAdmin(Pausable, ModelAdmin):  # type: ignore[misc]
    """Concurrency keys of jobs that are there, or were lately: how many run at a time; pause and resume."""

    list_display = ["name", "kind", "queue", "bound", "state", "paused_by", "used_at"]
    list_select_related = ["paused_by"]
    list_filter = [("paused_at", admin.EmptyFieldListFilter), "kind", "queue"]
    search_fields = ["name"]
    fields = readonly_fields = ["name", "kind", "queue", "bound", "state", "paused_by", "used_at"]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Never by a form: kinds and queues say their bounds."""
        return False

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002  # the admin's signature
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        return False
