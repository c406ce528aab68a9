"""Crons in the admin, as the apps' crons.py declare them."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from unfold.decorators import action, display

from core import administration
from scheduling import operations
from scheduling.admin import common
from scheduling.models import Cron
from scheduling.queries import pages
from scheduling.templatetags.scheduling import cron_status, pretty, wall


@admin.register(Cron)
class CronAdmin(common.Operated, administration.ReadOnly):
    """Crons: when they fire, what came of it, and a pause."""

    list_display = ["name", "schedule", "function", "shown_status", "last_fire_at", "next_at", "missed_count"]
    list_filter = [("paused_at", admin.EmptyFieldListFilter), ("retired_at", admin.EmptyFieldListFilter)]
    search_fields = ["name", "function"]
    fields = [
        ("name", "shown_status"), "schedule", "function", "arguments", ("missed", "at_most", "missed_count"),
        ("overlap", "skipped_count"), ("last_fire_at", "next_at"), "upcoming", "history",
    ]  # fmt: skip
    readonly_fields = ["arguments", "history", "shown_status", "upcoming"]
    actions = ["pause", "resume", "run_now"]
    actions_detail = ["run_one_now"]

    def view_on_site(self, obj: Cron) -> str:
        """Its page outside of the administration."""
        return reverse("scheduling:cron", args=[obj.pk])

    @display(description="Arguments")  # type: ignore[untyped-decorator]
    def arguments(self, cron: Cron) -> SafeString:
        """What its function is called with, as JSON."""
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
            (administration.link(common.FUNCTION, row.pk, f"#{row.pk}"), row.fire_at, row.status)
            for row in rows
        ]
        return format_html_join("", "{} {} {}<br>", entries) or "none yet"

    @display(description="Status", label=common.COLOURS)  # type: ignore[untyped-decorator]
    def shown_status(self, cron: Cron) -> str:
        """Whether it fires."""
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
        cron = self.get_object(request, object_id)
        if cron is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)  # type: ignore[no-any-return]
        dialog = {"title": "Run this cron now?", "button": "Run it now"}
        done = HttpResponseRedirect(reverse("admin:scheduling_cron_change", args=[cron.pk]))
        return self._each(request, [cron], operations.run_now, "Fired now.", dialog) or done

    def _each(
        self, request: HttpRequest, crons: list[Cron], do: Any, word: str, dialog: dict[str, str]
    ) -> HttpResponse | None:
        names = [cron.pk for cron in crons]
        if question := administration.carry_out(self, request, lines=names, **dialog):
            return question
        for cron in crons:
            do(cron.pk)
            self.log_change(request, cron, word)
        self.message_user(request, f"{word} ({', '.join(names)})", messages.SUCCESS)
        return None
