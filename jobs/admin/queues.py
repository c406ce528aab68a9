"""Queues: pause and resume many; who has how large a share, and whose jobs are paused."""

from typing import Any

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.admin import ModelAdmin

from core import administration, people
from jobs import operations
from jobs.models import ConcurrencyKey, PausedOwner, Queue, Weight


def _pause(request: HttpRequest, row: Any) -> str:
    (operations.pause if isinstance(row, Queue) else operations.pause_key)(row.pk, by=people.person(request))
    return "paused"


def _resume(request: HttpRequest, row: Any) -> str:
    (operations.resume if isinstance(row, Queue) else operations.resume_key)(row.pk, by=people.person(request))
    return "resumed"


class Pausable(administration.Operated):
    """Rows whose waiting jobs may be paused: queues and concurrency keys."""

    operate = "jobs.operate_job"
    actions = ["pause", "resume"]

    state = administration.shown(
        "Status", lambda row: "paused" if row.paused_at else "open", label={"paused": "warning", "open": "success"}
    )
    pause = administration.on_each("Pause {}", _pause, line=str)
    resume = administration.on_each("Resume {}", _resume, line=str)


@admin.register(Queue)
class QueueAdmin(administration.OnSite, Pausable, administration.ReadOnly):
    """Where jobs wait. A queue exists once a kind or a worker names it, and stays."""

    page = "jobs:queue"
    list_display = ["name", "state", "ceiling", "fair", "its_jobs", "created_at"]
    list_filter = [("paused_at", admin.EmptyFieldListFilter), "fair"]
    search_fields = ["name"]
    its_jobs = administration.shown("Jobs", lambda row: administration.listed("jobs_job", "jobs", queue=row.name))


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
class ConcurrencyKeyAdmin(Pausable, administration.ReadOnly):
    """Concurrency keys of jobs that are there, or were lately: how many run at a time (kinds and queues say that)."""

    list_display = ["name", "kind", "queue", "bound", "state", "paused_by", "used_at"]
    list_select_related = ["paused_by"]
    list_filter = [("paused_at", admin.EmptyFieldListFilter), "kind", "queue"]
    search_fields = ["name"]
    fields = ["name", "kind", "queue", "bound", "state", "paused_by", "used_at"]
