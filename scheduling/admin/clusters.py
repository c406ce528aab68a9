"""The lives of clusters, and what django-q2 keeps of its own tasks and schedules."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from core import administration
from scheduling.admin import functions
from scheduling.cluster import django_q2
from scheduling.models import Cluster


@admin.register(Cluster)
class ClusterAdmin(administration.BoundedList):
    """The lives of clusters: which run, and how the others ended."""

    list_display = [
        "role", "host", "pid", "shown_status", "workers", "free", "started_at", "last_seen_at", "ended_at", "why"
    ]  # fmt: skip
    list_filter = ["role", "ending", administration.by_day("started_at")]
    fields = [
        ("role", "shown_status"), ("host", "pid"), ("workers", "free"), ("started_at", "last_seen_at", "ended_at"),
        "why", "cluster_id",
    ]  # fmt: skip
    ordering = ["-started_at"]

    shown_status = administration.shown("Status", lambda cluster: cluster.ending or "living", label=functions.COLOURS)


class TaskAdmin(administration.ReadOnly):
    """Tasks that went past the scheduler, by `async_task`; of what they were called with nothing is unpickled here."""

    list_display = ["name", "func", "group", "started", "stopped", "attempt_count"]
    list_filter = [administration.by_day("stopped")]
    search_fields = ["=id", "=name"]
    fields = list_display

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Any]":
        """Without what would be unpickled, and may need code that is gone."""
        rows: QuerySet[Any] = super().get_queryset(request)
        return rows.defer("args", "kwargs", "result", "hook")


class ScheduleAdmin(administration.ReadOnly):
    """Schedules that went past the scheduler. To look at: whoever could edit one could call any function of Python."""

    list_display = ["id", "name", "func", "schedule_type", "repeats", "next_run"]
    search_fields = ["name", "func"]
    fields = ["name", "func", "args", "kwargs", ("schedule_type", "minutes", "cron"), ("repeats", "next_run"), "task"]


def _tidy() -> None:
    """Give django-q2's tables pages like all others. Its queue has none: what waits there is unpickled to be shown."""
    pages = {django_q2.Success: TaskAdmin, django_q2.Failure: TaskAdmin, django_q2.Schedule: ScheduleAdmin}
    for table, page in pages.items():
        if admin.site.is_registered(table):
            admin.site.unregister(table)
        admin.site.register(table, page)


_tidy()
