"""Crons in the admin: as the apps' crons.py declare them, and as people change and make them."""

from collections.abc import Callable
from typing import Any, Final

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from core import administration, audit, people
from scheduling import operations, views
from scheduling.admin import functions
from scheduling.domain.schedules import Source
from scheduling.forms import FIELDS, CronForm
from scheduling.models import Cron
from scheduling.queries import pages
from scheduling.templatetags.scheduling import cron_status, pretty, short, timing, wall

SOURCES: Final = {Source.CODE: "code", Source.EDITED: "code, changed by a person", Source.PERSON: "a person"}

_WIDGETS: Final = {
    "function": UnfoldAdminSelectWidget, "zone": UnfoldAdminSelectWidget, "timing": UnfoldAdminTextInputWidget,
    "arguments_text": UnfoldAdminTextareaWidget,
}  # fmt: skip


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
    rows = [(functions.link(row.pk), row.fire_at, row.status) for row in pages.firings(cron.pk)]
    return format_html_join("", "{} {} {}<br>", rows) or "none yet"


def _acting(make: Callable[..., Any], sentence: str, do: Callable[[str], object], done: str) -> Any:
    """An action on crons. A refusal, as of one whose function is gone, is counted like the others."""

    def change(request: HttpRequest, cron: Cron) -> str:
        do(cron.pk)
        audit.record(people.person(request), cron, done)
        return done

    return make(sentence, change, line=lambda cron: cron.pk)


@admin.register(Cron)
class CronAdmin(functions.Operated, administration.ReadOnly):
    """Crons: when they fire, what came of it, and a pause; those of apps and of people can be changed."""

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
        """The next ten firings of the schedule that is being typed, or why it is none."""
        if not (self.has_add_permission(request) or request.user.has_perm("scheduling.change_cron")):
            raise PermissionDenied
        return views.firings(request)

    def _is_form(self, request: HttpRequest, obj: Cron | None) -> bool:
        return self.has_add_permission(request) if obj is None else self.has_change_permission(request, obj)

    shown_schedule = administration.shown("Schedule", lambda cron: timing(cron.schedule), ordering="schedule")
    shown_function = administration.shown("Function", lambda cron: short(cron.function), ordering="function")
    shown_source = administration.shown("Defined by", lambda cron: SOURCES[Source(cron.source)])
    arguments = administration.shown("Arguments", lambda cron: administration.preformatted(pretty(cron.args)))
    upcoming = administration.shown("Next ten firings", _upcoming)
    history = administration.shown("Last firings", _history)
    shown_status = administration.shown("Status", cron_status, label=functions.COLOURS)
    view_on_site = administration.on_site("scheduling:cron")

    pause = _acting(administration.on_each, "Pause {}", operations.pause, "paused")
    resume = _acting(administration.on_each, "Resume {}", operations.resume, "resumed")
    run_now = _acting(administration.on_each, "Run {} now", operations.run_now, "fired now")
    run_one_now = _acting(administration.on_one, "Run {} now", operations.run_now, "fired now")
    follow_code = _acting(administration.on_one, "Reset {} to the code", operations.follow_code, "reset to the code")
    remove = _acting(administration.on_one, "Remove {}", operations.remove, "removed")
