"""Scheduled functions, crons, clusters and django-q2's own rows in the admin: to look at, and to act on."""

from collections.abc import Callable
from typing import Any, Final

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from core import administration, audit, people
from live import html
from scheduling import live_queries, operations, views
from scheduling.cluster import django_q2
from scheduling.domain.schedules import Source
from scheduling.domain.states import Status
from scheduling.models import Cluster, Cron, ScheduledFunction
from scheduling.queries import pages
from scheduling.templatetags.scheduling import cron_status, short, stored, timing, wall
from scheduling.views import FIELDS, CronForm

COLOURS: Final = {
    "pending": "info",
    **dict.fromkeys(("success", "active", "living"), "success"),
    **dict.fromkeys(("in_progress", "paused"), "warning"),
    **dict.fromkeys(("failed", "unknown", "died", "frozen", "lost"), "danger"),
    **dict.fromkeys(("canceled", "retired", "stopped"), ""),
}
SOURCES: Final = {Source.CODE: "code", Source.EDITED: "code, changed by a person", Source.PERSON: "a person"}
_WIDGETS: Final = {
    "function": UnfoldAdminSelectWidget, "zone": UnfoldAdminSelectWidget, "timing": UnfoldAdminTextInputWidget,
    "arguments_text": UnfoldAdminTextareaWidget,
}  # fmt: skip


def link(pk: int | None) -> SafeString | str:
    return administration.link("scheduling_scheduledfunction", pk)


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


class AdminCronForm(CronForm):
    preview = "admin:scheduling_cron_preview"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in _WIDGETS.keys() & self.fields.keys():
            field = self.fields[name]
            field.widget = _WIDGETS[name](attrs=field.widget.attrs)
            if isinstance(field, forms.ChoiceField):
                field.widget.choices = field.choices


def _upcoming(cron: Cron) -> SafeString | str:
    moments = [(wall(moment),) for moment in operations.upcoming(cron)]
    return format_html_join("", "{}<br>", moments) or "none: it is not active"


def _history(cron: Cron) -> SafeString | str:
    rows = [(link(row.pk), row.fire_at, row.status) for row in pages.firings(cron.pk)]
    return format_html_join("", "{} {} {}<br>", rows) or "none yet"


def _acting(make: Callable[..., Any], sentence: str, do: Callable[[str], object], done: str) -> Any:
    """An action on crons. A refusal, as of one whose function is gone, is counted like the others."""

    def change(request: HttpRequest, cron: Cron) -> str:
        do(cron.pk)
        audit.record(people.person(request), cron, done)
        return done

    return make(sentence, change, line=lambda cron: cron.pk)


@admin.register(Cron)
class CronAdmin(Operated, administration.ReadOnly):
    form = AdminCronForm
    list_display = [
        "name", "shown_schedule", "shown_function", "shown_source", "shown_status", "last_fire_at", "next_at",
    ]  # fmt: skip
    list_filter = ["source", ("paused_at", admin.EmptyFieldListFilter), ("retired_at", admin.EmptyFieldListFilter)]
    search_fields = ["name", "function"]
    fields = [
        ("name", "shown_status"), "pause_reason", ("shown_schedule", "shown_source"), "function", "arguments",
        ("missed", "at_most", "missed_count"), ("overlap", "skipped_count"), ("last_fire_at", "next_at"),
        "upcoming", "history",
    ]  # fmt: skip
    readonly_fields = [
        "arguments", "history", "pause_reason", "shown_schedule", "shown_source", "shown_status", "upcoming",
    ]  # fmt: skip
    actions = ["pause", "resume", "run_now"]
    actions_detail = ["run_one_now", "follow_code", "remove"]

    def has_add_permission(self, request: HttpRequest, obj: Cron | None = None) -> bool:  # noqa: ARG002  # the admin's
        return bool(request.user.has_perm("scheduling.add_cron"))

    def has_change_permission(self, request: HttpRequest, obj: Cron | None = None) -> bool:
        """Whoever has Django's right to; but nobody changes a cron of the farm itself."""
        is_editable = obj is not None and operations.is_editable(obj)
        return is_editable and bool(request.user.has_perm("scheduling.change_cron"))

    def get_fields(self, request: HttpRequest, obj: Cron | None = None) -> Any:
        if not self._is_form(request, obj):
            return self.fields
        known = [] if obj is None else [("shown_status", "shown_source"), "pause_reason", "upcoming", "history"]
        return [*FIELDS, *known]

    def get_readonly_fields(self, request: HttpRequest, obj: Cron | None = None) -> Any:
        stays = ["name", "function"] if obj is not None and self._is_form(request, obj) else []
        return [*self.readonly_fields, *stays]

    def get_actions_detail(self, request: HttpRequest, object_id: int | str) -> list[Any]:
        cron = self.get_object(request, str(object_id))
        source = "" if cron is None or cron.retired_at else str(cron.source)
        fitting = {"edited": {"reset-to-the-code"}, "person": {"remove"}}.get(source, set())
        actions = super().get_actions_detail(request, object_id)
        return [each for each in actions if each.path in fitting | {"run-now"}]

    def save_model(self, request: HttpRequest, obj: Cron, form: AdminCronForm, change: bool) -> None:  # noqa: ARG002
        """Make or change it by the operation; the line in the log is Django's own."""
        if change:
            operations.edit(obj.pk, **form.plan)
        else:
            operations.make(obj.pk, function=form.cleaned_data["function"], **form.plan)

    def get_urls(self) -> list[Any]:
        preview = self.admin_site.admin_view(self.preview)
        return [path("preview/", preview, name="scheduling_cron_preview"), *super().get_urls()]

    def preview(self, request: HttpRequest) -> HttpResponse:
        if not (self.has_add_permission(request) or request.user.has_perm("scheduling.change_cron")):
            raise PermissionDenied
        return views.firings(request)

    def _is_form(self, request: HttpRequest, obj: Cron | None) -> bool:
        return self.has_add_permission(request) if obj is None else self.has_change_permission(request, obj)

    shown_schedule = administration.shown("Schedule", lambda cron: timing(cron.schedule), ordering="schedule")
    shown_function = administration.shown("Function", lambda cron: short(cron.function), ordering="function")
    shown_source = administration.shown("Defined by", lambda cron: SOURCES[Source(cron.source)])
    arguments = administration.shown("Arguments", lambda cron: administration.preformatted(stored(cron.stored_args)))
    upcoming = administration.shown("Next ten firings", _upcoming)
    history = administration.shown("Last firings", _history)
    shown_status = administration.shown("Status", cron_status, label=COLOURS)
    view_on_site = administration.on_site("scheduling:cron")

    pause = _acting(administration.on_each, "Pause {}", operations.pause, "paused")
    resume = _acting(administration.on_each, "Resume {}", operations.resume, "resumed")
    run_now = _acting(administration.on_each, "Run {} now", operations.run_now, "fired now")
    run_one_now = _acting(administration.on_one, "Run {} now", operations.run_now, "fired now")
    follow_code = _acting(administration.on_one, "Reset {} to the code", operations.follow_code, "reset to the code")
    remove = _acting(administration.on_one, "Remove {}", operations.remove, "removed")


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
