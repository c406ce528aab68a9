"""Scheduled functions, crons and clusters in the admin: to look at, and to act on."""

from collections import Counter
from typing import Any

from django.contrib import admin, messages
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin
from unfold.decorators import display

from scheduling import operations, views
from scheduling.errors import SchedulingError
from scheduling.models import Cluster, Cron, ScheduledFunction
from scheduling.queries import pages
from scheduling.templatetags.scheduling import pretty, wall

COUNTED = 10_000  # rows that are counted and paged through; filters reach the others
_COLORS = {
    "pending": "info",
    "in_progress": "warning",
    "success": "success",
    "failed": "danger",
    "canceled": "",
    "unknown": "danger",
    "paused": "warning",
    "retired": "",
    "fires": "success",
    "living": "success",
    "stopped": "",
    "died": "danger",
    "frozen": "danger",
    "lost": "danger",
}


class Counted(Paginator):  # type: ignore[type-arg]  # Django's own class takes no parameter
    """Pages over the first rows: counting millions takes seconds."""

    @cached_property
    def count(self) -> int:
        """How many rows there are, at most COUNTED."""
        return int(self.object_list.order_by().values("pk")[:COUNTED].count())  # type: ignore[attr-defined]


class _ReadOnly(ModelAdmin):  # type: ignore[misc]  # unfold ships no types
    """Rows come from the scheduler and are never edited here."""

    paginator = Counted
    show_full_result_count = False
    list_per_page = 50

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002  # the admin's
        """Never."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Never."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Never: what ended is forgotten by itself."""
        return False

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Who may cancel, run again, pause."""
        return bool(request.user.has_perm(views.OPERATE))


class _ByFunction(admin.SimpleListFilter):
    """The functions that have rows, found by jumps in their index and not by reading all rows."""

    title = "function"
    parameter_name = "function"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:  # noqa: ARG002
        """All of them."""
        return [(name, name) for name in pages.names()]

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> "QuerySet[Any]":  # noqa: ARG002
        """Those of the one that was chosen."""
        return queryset.filter(function=self.value()) if self.value() else queryset


def _preformatted(text: str) -> SafeString:
    return format_html('<pre style="white-space: pre-wrap">{}</pre>', text)


def _address(row: ScheduledFunction) -> str:
    return reverse("admin:scheduling_scheduledfunction_change", args=[row.pk])


@admin.register(ScheduledFunction)
class ScheduledFunctionAdmin(_ReadOnly):
    """What was scheduled, and how it went."""

    list_display = ["id", "function", "kind", "shown_state", "attempt", "due_at", "started_at", "ended_at"]
    list_display_links = ["id", "function"]
    list_filter = ["state", _ByFunction, "kind"]
    search_fields = ["=id"]
    fields = [
        "function", ("kind", "shown_state", "attempt"), ("due_at", "started_at", "ended_at"), ("queue", "priority"),
        "arguments", "outcome", "error", "shown_traceback", "parent", "retry_of", "run_again_of", "cron", "fire_at",
        "created_at", "ran_by",
    ]  # fmt: skip
    readonly_fields = ["arguments", "outcome", "shown_state", "shown_traceback"]
    actions = ["cancel", "run_again"]

    def get_queryset(self, request: HttpRequest) -> "QuerySet[ScheduledFunction]":
        """Without what only its own page shows."""
        rows: QuerySet[ScheduledFunction] = super().get_queryset(request)
        return rows.defer("args", "result", "error", "traceback")

    @display(description="Arguments")  # type: ignore[untyped-decorator]
    def arguments(self, row: ScheduledFunction) -> SafeString:
        """What it is called with, as JSON."""
        return _preformatted(pretty(row.args))

    @display(description="Result")  # type: ignore[untyped-decorator]
    def outcome(self, row: ScheduledFunction) -> SafeString | str:
        """What it returned, as JSON."""
        return "-" if row.result is None else _preformatted(pretty(row.result))

    @display(description="Traceback")  # type: ignore[untyped-decorator]
    def shown_traceback(self, row: ScheduledFunction) -> SafeString | str:
        """Where it broke."""
        return _preformatted(row.traceback) if row.traceback else "-"

    @display(description="State", ordering="state", label=_COLORS)  # type: ignore[untyped-decorator]
    def shown_state(self, row: ScheduledFunction) -> str:
        """Where it stands."""
        return row.state

    @admin.action(description="Cancel", permissions=["operate"])
    def cancel(self, request: HttpRequest, queryset: "QuerySet[ScheduledFunction]") -> None:
        """Cancel each, and count what that came to."""
        verdicts: Counter[str] = Counter()
        for row in queryset:
            verdict = operations.cancel(row.pk).verdict
            verdicts[verdict.replace("_", " ")] += 1
            self.log_change(request, row, f"Canceled ({verdict}).")
        self._say(request, verdicts)

    @admin.action(description="Run again, as new rows", permissions=["operate"])
    def run_again(self, request: HttpRequest, queryset: "QuerySet[ScheduledFunction]") -> None:
        """Schedule each once more; those that have not ended are left out, and counted."""
        outcomes: Counter[str] = Counter()
        for row in queryset:
            try:
                again = operations.run_again(row.pk)
            except SchedulingError as refusal:
                outcomes[refusal.code.replace("_", " ")] += 1
                continue
            outcomes["scheduled again"] += 1
            self.log_change(request, again, f"Ran #{row.pk} again.")
        self._say(request, outcomes)

    def _say(self, request: HttpRequest, outcomes: "Counter[str]") -> None:
        told = ", ".join(f"{word}: {count}" for word, count in sorted(outcomes.items()))
        self.message_user(request, f"{told}.", messages.SUCCESS)


@admin.register(Cron)
class CronAdmin(_ReadOnly):
    """Crons, as the apps' crons.py declare them."""

    list_display = ["name", "schedule", "function", "shown_state", "last_fire_at", "next_at", "missed_count"]
    list_filter = [("paused_at", admin.EmptyFieldListFilter), ("retired_at", admin.EmptyFieldListFilter)]
    search_fields = ["name", "function"]
    fields = [
        ("name", "shown_state"), "schedule", "function", "arguments", ("missed", "at_most", "missed_count"),
        ("overlap", "skipped_count"), ("last_fire_at", "next_at"), "upcoming", "history",
    ]  # fmt: skip
    readonly_fields = ["arguments", "history", "shown_state", "upcoming"]
    actions = ["pause", "resume", "run_now"]

    @display(description="Arguments")  # type: ignore[untyped-decorator]
    def arguments(self, cron: Cron) -> SafeString:
        """What its function is called with, as JSON."""
        return _preformatted(pretty(cron.args))

    @display(description="Next ten firings")  # type: ignore[untyped-decorator]
    def upcoming(self, cron: Cron) -> SafeString | str:
        """In the cron's own zone."""
        moments = [(wall(moment),) for moment in operations.upcoming(cron)]
        return format_html_join("", "{}<br>", moments) or "none while it does not fire"

    @display(description="Last firings")  # type: ignore[untyped-decorator]
    def history(self, cron: Cron) -> SafeString | str:
        """The last ten, each with its state and its page."""
        rows = pages.functions(cron=cron.pk)[:10]
        lines = [(_address(row), row.pk, row.fire_at, row.state) for row in rows]
        return format_html_join("", '<a href="{}">#{}</a> {} {}<br>', lines) or "none yet"

    @display(description="State", label=_COLORS)  # type: ignore[untyped-decorator]
    def shown_state(self, cron: Cron) -> str:
        """Whether it fires."""
        return "retired" if cron.retired_at else "paused" if cron.paused_at else "fires"

    @admin.action(description="Pause", permissions=["operate"])
    def pause(self, request: HttpRequest, queryset: "QuerySet[Cron]") -> None:
        """Let them fire no more."""
        self._each(request, queryset, operations.pause, "Paused.")

    @admin.action(description="Resume", permissions=["operate"])
    def resume(self, request: HttpRequest, queryset: "QuerySet[Cron]") -> None:
        """Let them fire again."""
        self._each(request, queryset, operations.resume, "Resumed.")

    @admin.action(description="Run now", permissions=["operate"])
    def run_now(self, request: HttpRequest, queryset: "QuerySet[Cron]") -> None:
        """Fire each once, besides its times."""
        self._each(request, queryset, operations.run_now, "Fired now.")

    def _each(self, request: HttpRequest, queryset: "QuerySet[Cron]", do: Any, word: str) -> None:
        for cron in queryset:
            do(cron.pk)
            self.log_change(request, cron, word)
        self.message_user(request, f"{word} ({', '.join(cron.pk for cron in queryset)})", messages.SUCCESS)


@admin.register(Cluster)
class ClusterAdmin(_ReadOnly):
    """The lives of clusters: which run, and how the others ended."""

    list_display = [
        "role",
        "host",
        "pid",
        "shown_state",
        "workers",
        "free",
        "started_at",
        "heard_at",
        "ended_at",
        "why",
    ]
    list_filter = ["role", "ending"]
    fields = [
        "boot_id",
        "role",
        "host",
        "pid",
        "workers",
        "free",
        "started_at",
        "heard_at",
        "ended_at",
        "ending",
        "why",
    ]
    readonly_fields = fields

    @display(description="State", label=_COLORS)  # type: ignore[untyped-decorator]
    def shown_state(self, cluster: Cluster) -> str:
        """Whether it lives, or how it ended."""
        return cluster.ending or "living"
