"""Crons in the admin: as the apps' crons.py declare them, and as people change and make them."""

from typing import Any, Final

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import path, reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from unfold.decorators import action, display
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from core import administration
from scheduling import operations, views
from scheduling.admin import common
from scheduling.domain.schedules import Source
from scheduling.errors import SchedulingError
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
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in _WIDGETS.keys() & self.fields.keys():
            field = self.fields[name]
            field.widget = _WIDGETS[name](attrs={"rows": 4} if name == "arguments_text" else None)
            if isinstance(field, forms.ChoiceField):
                field.widget.choices = field.choices


@admin.register(Cron)
class CronAdmin(common.Operated, administration.ReadOnly):
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
        """Whoever has Django's right to."""
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
        """Those that can change something of this cron as it stands."""
        cron = self.get_object(request, str(object_id))
        source = "" if cron is None or cron.retired_at else str(cron.source)
        fitting = {"edited": {"follow-code"}, "person": {"remove"}}.get(source, set())
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

    @display(description="Schedule", ordering="schedule")  # type: ignore[untyped-decorator]
    def shown_schedule(self, cron: Cron) -> str:
        return timing(cron.schedule)

    @display(description="Function", ordering="function")  # type: ignore[untyped-decorator]
    def shown_function(self, cron: Cron) -> str:
        """What it calls; the whole name is on its page."""
        return short(cron.function)

    @display(description="Defined by")  # type: ignore[untyped-decorator]
    def shown_source(self, cron: Cron) -> str:
        return SOURCES[Source(cron.source)]

    def view_on_site(self, obj: Cron) -> str:
        return reverse("scheduling:cron", args=[obj.pk])

    @display(description="Arguments")  # type: ignore[untyped-decorator]
    def arguments(self, cron: Cron) -> SafeString:
        return administration.preformatted(pretty(cron.args))

    @display(description="Next ten firings")  # type: ignore[untyped-decorator]
    @administration.once
    def upcoming(self, cron: Cron) -> SafeString | str:
        """In the cron's own zone."""
        moments = [(wall(moment),) for moment in operations.upcoming(cron)]
        return format_html_join("", "{}<br>", moments) or "none: it is not active"

    @display(description="Last firings")  # type: ignore[untyped-decorator]
    @administration.once
    def history(self, cron: Cron) -> SafeString | str:
        """The last ten, each with its state and its page."""
        rows = pages.firings(cron.pk)
        entries = [
            (administration.link(common.FUNCTION, row.pk, f"#{row.pk}"), row.fire_at, row.status) for row in rows
        ]
        return format_html_join("", "{} {} {}<br>", entries) or "none yet"

    @display(description="Status", label=common.COLOURS)  # type: ignore[untyped-decorator]
    def shown_status(self, cron: Cron) -> str:
        return cron_status(cron)

    @admin.action(description="Pause", permissions=["operate"])
    def pause(self, request: HttpRequest, queryset: "QuerySet[Cron]") -> HttpResponse | None:
        """Let them fire no more, after a question."""
        dialog = {"title": "Pause these crons?", "button": "Pause them"}
        return self._each(request, list(queryset), operations.pause, "Paused.", dialog)

    @admin.action(description="Resume", permissions=["operate"])
    def resume(self, request: HttpRequest, queryset: "QuerySet[Cron]") -> HttpResponse | None:
        """Let them fire again, after a question."""
        dialog = {"title": "Resume these crons?", "button": "Resume them"}
        return self._each(request, list(queryset), operations.resume, "Resumed.", dialog)

    @admin.action(description="Run now", permissions=["operate"])
    def run_now(self, request: HttpRequest, queryset: "QuerySet[Cron]") -> HttpResponse | None:
        """Fire each once, besides its times, after a question."""
        dialog = {"title": "Run these crons now?", "button": "Run them now"}
        return self._each(request, list(queryset), operations.run_now, "Fired now.", dialog)

    @action(description="Run now", url_path="run-now", permissions=["operate"])  # type: ignore[untyped-decorator]
    def run_one_now(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Fire this one once, besides its times, after a question."""
        dialog = {"title": "Run this cron now?", "button": "Run it now"}
        return self._alone(request, object_id, operations.run_now, "Fired now.", dialog)

    @action(description="Follow the code again", url_path="follow-code", permissions=["operate"])  # type: ignore[untyped-decorator]
    def follow_code(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Undo what people changed of it, after a question."""
        dialog = {"title": "Reset this cron to what the code declares?", "button": "Follow the code"}
        return self._alone(request, object_id, operations.follow_code, "Follows the code again.", dialog)

    @action(description="Remove", url_path="remove", permissions=["operate"])  # type: ignore[untyped-decorator]
    def remove(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Let one that a person made fire no more, after a question."""
        dialog = {"title": "Remove this cron? Its history stays.", "button": "Remove it"}
        return self._alone(request, object_id, operations.remove, "Removed.", dialog)

    def _alone(self, request: HttpRequest, object_id: str, do: Any, word: str, dialog: dict[str, str]) -> HttpResponse:
        return self.act_on_one(request, object_id, lambda cron: self._each(request, [cron], do, word, dialog))

    def _each(
        self, request: HttpRequest, crons: list[Cron], do: Any, word: str, dialog: dict[str, str]
    ) -> HttpResponse | None:
        if question := administration.carry_out(self, request, lines=[cron.pk for cron in crons], **dialog):
            return question
        done = [cron.pk for cron in crons if self._is_done(request, cron, do, word)]
        if done:
            self.message_user(request, f"{word} ({', '.join(done)})", messages.SUCCESS)
        return None

    def _is_done(self, request: HttpRequest, cron: Cron, do: Any, word: str) -> bool:
        """Do it; a refusal, as of one whose function is gone, is a sentence, and the others go on."""
        try:
            do(cron.pk)
        except SchedulingError as refusal:
            self.message_user(request, f"{cron.pk}: {refusal.message}", messages.ERROR)
            return False
        self.log_change(request, cron, word)
        return True
