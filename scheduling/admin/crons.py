"""Crons in the admin: as the apps' crons.py declare them, and as people change and make them."""

from collections.abc import Callable
from typing import Any, Final

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import path, reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from unfold.decorators import action
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


def _upcoming(cron: Cron) -> SafeString | str:
    moments = [(wall(moment),) for moment in operations.upcoming(cron)]
    return format_html_join("", "{}<br>", moments) or "none: it is not active"


def _history(cron: Cron) -> SafeString | str:
    rows = [(common.function(row.pk), row.fire_at, row.status) for row in pages.firings(cron.pk)]
    return format_html_join("", "{} {} {}<br>", rows) or "none yet"


def _on_many(sentence: str, do: Callable[[str], object], done: str) -> Any:
    """An action on the chosen crons, after a question."""

    def act(page: "CronAdmin", request: HttpRequest, queryset: "QuerySet[Cron]") -> HttpResponse | None:
        dialog = {"title": f"{sentence.format('these crons')}?", "button": sentence.format("them")}
        return page._each(request, list(queryset), do, done, dialog)  # noqa: SLF001 (it is a part of that page)

    return admin.action(description=sentence.replace(" {}", ""), permissions=["operate"])(act)


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

    shown_schedule = administration.shown("Schedule", lambda cron: timing(cron.schedule), ordering="schedule")
    shown_function = administration.shown("Function", lambda cron: short(cron.function), ordering="function")
    shown_source = administration.shown("Defined by", lambda cron: SOURCES[Source(cron.source)])
    arguments = administration.shown("Arguments", lambda cron: administration.preformatted(pretty(cron.args)))
    upcoming = administration.shown("Next ten firings", _upcoming)
    history = administration.shown("Last firings", _history)
    shown_status = administration.shown("Status", cron_status, label=common.COLOURS)

    def view_on_site(self, obj: Cron) -> str:
        return reverse("scheduling:cron", args=[obj.pk])

    pause = _on_many("Pause {}", operations.pause, "Paused.")
    resume = _on_many("Resume {}", operations.resume, "Resumed.")
    run_now = _on_many("Run {} now", operations.run_now, "Fired now.")

    @action(description="Run now", url_path="run-now", permissions=["operate"])  # type: ignore[untyped-decorator]
    def run_one_now(self, request: HttpRequest, object_id: str) -> HttpResponse:
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
