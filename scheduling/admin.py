"""Scheduled functions, crons, clusters and django-q2's own rows in the admin: to look at, and to act on."""

from collections.abc import Callable
from typing import Any, Final

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.safestring import SafeString

from core import administration, audit, people
from live import html
from scheduling import live_queries, operations, views
from scheduling.cluster import django_q2
from scheduling.domain.calls import Status
from scheduling.domain.schedules import Source
from scheduling.models import Cluster, Cron, ScheduledFunction
from scheduling.queries import pages
from scheduling.templatetags.scheduling import cron_status, short, timing

COLOURS: Final = {
    "pending": "info",
    **dict.fromkeys(("success", "active", "living"), "success"),
    **dict.fromkeys(("in_progress", "paused"), "warning"),
    **dict.fromkeys(("failed", "unknown", "died", "frozen", "lost"), "danger"),
    **dict.fromkeys(("canceled", "retired", "stopped"), ""),
}
SOURCES: Final = {Source.CODE: "code", Source.EDITED: "code, changed by a person", Source.PERSON: "a person"}


class Operated(administration.Operated):
    operate = views.OPERATE


class StatusFilter(administration.among("status", Status, led=set(Status) - {Status.SUCCESS})):  # type: ignore[misc]
    """Functions that stand so. Those to which an index leads are found however old they are: all but successes."""

    def queryset(self, request: HttpRequest, queryset: "QuerySet[ScheduledFunction]") -> "QuerySet[ScheduledFunction]":
        """Those; of what waits or runs the ids, while they are few: a function of next year is older than millions."""
        status = self.value()
        matches: QuerySet[ScheduledFunction] = super().queryset(request, queryset)
        living = pages.living_ids(str(status)) if status in {Status.PENDING, Status.IN_PROGRESS} else None
        return matches if living is None else matches.filter(pk__in=living)


FILTERS: Final = [
    StatusFilter,
    administration.known("function", "function", pages.names, leads=True),
    "kind",
    administration.by_day("created_at", leads=True),
]


def _state_in_list(row: ScheduledFunction) -> SafeString:
    arguments, known = {"function_id": row.pk}, {"status": row.status}
    return html.wrapper_of_context("function-state", arguments, context=known, audience=live_queries.OPERATOR)


def _cancel(request: HttpRequest, row: ScheduledFunction) -> str:
    verdict = operations.cancel(row.pk).verdict
    audit.record(people.person(request), row, f"Canceled ({verdict}).")
    return verdict.replace("_", " ")


def _run_again(request: HttpRequest, row: ScheduledFunction) -> str:
    audit.record(people.person(request), operations.run_again(row.pk), f"Ran #{row.pk} again.")
    return "scheduled again"


@admin.register(ScheduledFunction)
class ScheduledFunctionAdmin(administration.OnSite, Operated, administration.BoundedList):
    page = "scheduling:function"

    list_display = ["id", "function", "kind", "state_now", "attempt", "run_at", "started_at", "ended_at"]
    list_display_links = ["id", "function"]
    list_filter = FILTERS
    led_lookups = frozenset({"parent", "retry_of"})
    search_fields = ["=id"]
    search_help_text = "The id of a function"
    actions = ["cancel", "run_again"]

    def get_queryset(self, request: HttpRequest) -> "QuerySet[ScheduledFunction]":
        rows: QuerySet[ScheduledFunction] = super().get_queryset(request)
        return rows.defer("args", "result", "error", "traceback")

    def finds_exactly(self, term: str) -> bool:
        return bool(term.strip())

    state_now = administration.shown("Status", _state_in_list)
    cancel = administration.on_each("Cancel {}", _cancel)
    run_again = administration.on_each("Run {} again", _run_again)


def _acting(sentence: str, do: Callable[[str], object], done: str) -> Any:
    """An action on crons. A refusal, as of one whose function is gone, is counted like the others."""

    def change(request: HttpRequest, cron: Cron) -> str:
        do(cron.pk)
        audit.record(people.person(request), cron, done)
        return done

    return administration.on_each(sentence, change, line=lambda cron: cron.pk)


@admin.register(Cron)
class CronAdmin(administration.OnSite, Operated, administration.ReadOnly):
    page = "scheduling:cron"
    page_right = live_queries.VIEW  # it shows functions

    list_display = [
        "name", "shown_schedule", "shown_function", "shown_source", "shown_status", "last_fire_at", "next_at",
    ]  # fmt: skip
    list_filter = ["source", ("paused_at", admin.EmptyFieldListFilter), ("retired_at", admin.EmptyFieldListFilter)]
    search_fields = ["name", "function"]
    actions = ["pause", "resume", "run_now"]

    def has_add_permission(self, request: HttpRequest, obj: Cron | None = None) -> bool:  # noqa: ARG002  # the admin's
        return bool(request.user.has_perm(views.ADD_CRON))

    def add_view(self, request: HttpRequest, *_: Any, **__: Any) -> HttpResponse:
        if not self.has_add_permission(request):
            raise PermissionDenied
        return redirect("scheduling:new_cron")

    shown_schedule = administration.shown("Schedule", lambda cron: timing(cron.schedule), ordering="schedule")
    shown_function = administration.shown("Function", lambda cron: short(cron.function), ordering="function")
    shown_source = administration.shown("Defined by", lambda cron: SOURCES[Source(cron.source)])
    shown_status = administration.shown("Status", cron_status, label=COLOURS)

    pause = _acting("Pause {}", operations.pause, "paused")
    resume = _acting("Resume {}", operations.resume, "resumed")
    run_now = _acting("Run {} now", operations.run_now, "fired now")


@admin.register(Cluster)
class ClusterAdmin(administration.BoundedList):
    list_display = [
        "role", "host", "pid", "shown_status", "workers", "free", "started_at", "last_seen_at", "ended_at", "why"
    ]  # fmt: skip
    list_filter = ["role", "ending", administration.by_day("started_at")]
    fields = [
        ("role", "shown_status"), ("host", "pid"), ("workers", "free"), ("started_at", "last_seen_at", "ended_at"),
        "why", "cluster_id",
    ]  # fmt: skip
    ordering = ["-started_at"]

    shown_status = administration.shown("Status", lambda cluster: cluster.ending or "living", label=COLOURS)


class TaskAdmin(administration.ReadOnly):
    """Tasks that went past the scheduler, by `async_task`; of what they were called with nothing is unpickled here."""

    list_display = ["name", "func", "group", "started", "stopped", "attempt_count"]
    list_filter = [administration.by_day("stopped")]
    search_fields = ["=id", "=name"]
    fields = list_display

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Any]":
        rows: QuerySet[Any] = super().get_queryset(request)
        return rows.defer("args", "kwargs", "result", "hook")


class ScheduleAdmin(administration.ReadOnly):
    """Schedules that went past the scheduler. To look at: whoever could edit one could call any function of Python."""

    list_display = ["id", "name", "func", "schedule_type", "repeats", "next_run"]
    search_fields = ["name", "func"]
    fields = ["name", "func", "args", "kwargs", ("schedule_type", "minutes", "cron"), ("repeats", "next_run"), "task"]


# django-q2's tables get pages like all others. Its queue has none: what waits there is unpickled to be shown.
_PAGES: Final = {django_q2.Success: TaskAdmin, django_q2.Failure: TaskAdmin, django_q2.Schedule: ScheduleAdmin}
for _table, _page in _PAGES.items():
    if admin.site.is_registered(_table):
        admin.site.unregister(_table)
    admin.site.register(_table, _page)
