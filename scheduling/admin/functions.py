"""What was scheduled, and how it went: to look at, to cancel, to run again."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from unfold.decorators import action

from core import administration
from live import html
from scheduling import live_queries, operations
from scheduling.admin import common
from scheduling.domain.states import Status
from scheduling.errors import SchedulingError
from scheduling.models import ScheduledFunction
from scheduling.queries import pages
from scheduling.queries.functions import retry_of
from scheduling.templatetags.scheduling import pretty

AT_ONCE: Final = 1000  # functions that one action touches; the message says when more match


class StatusFilter(admin.SimpleListFilter):
    """Functions that stand so. What an index leads to is found however old it is."""

    title = parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:  # noqa: ARG002  # the admin's
        return [(status.value, status.replace("_", " ")) for status in Status]

    @property
    def leads(self) -> bool:
        """Successes are most of the functions, and have no index of their own."""
        return self.value() in set(Status) - {Status.SUCCESS}

    def queryset(
        self, request: HttpRequest, queryset: "QuerySet[ScheduledFunction]"  # noqa: ARG002
    ) -> "QuerySet[ScheduledFunction]":  # fmt: skip
        """Those; of what waits or runs the ids, while they are few: a function of next year is older than millions."""
        status = self.value()
        if status not in set(Status):
            return queryset
        matches = queryset.filter(status=status)
        living = pages.living_ids(str(status)) if status in {Status.PENDING, Status.IN_PROGRESS} else None
        return matches if living is None else matches.filter(pk__in=living)


FILTERS: Final = [
    StatusFilter,
    administration.known("function", "function", pages.names, leads=True),
    "kind",
    administration.by_day("created_at", first_since=pages.first_since, end_before=pages.end_before),
]


def _pretty(value: Any) -> SafeString:
    return administration.preformatted(pretty(value))


def _traceback(row: ScheduledFunction) -> SafeString | str:
    return administration.preformatted(row.traceback) if row.traceback else "–"


def _cron(row: ScheduledFunction) -> SafeString | str:
    return administration.link("scheduling_cron", row.cron_id, row.cron_id)


def _failed_runs(row: ScheduledFunction) -> str:
    """What its runs came to while it is still pending: collisions with their statement, deaths of its process."""
    queued = pages.queued(row.pk)
    if queued is None or not (queued.collisions or queued.deaths):
        return "–"
    collided = f"{queued.collisions} runs collided, last at: {queued.colliding_statement}"
    died = f"its process died {queued.deaths} times while it ran"
    return "; ".join([collided] * bool(queued.collisions) + [died] * bool(queued.deaths))


def _state_in_list(row: ScheduledFunction) -> SafeString:
    arguments, known = {"function_id": row.pk}, {"status": row.status}
    return html.wrapper_of_context("function-state", arguments, context=known, audience=live_queries.OPERATOR)


def _live_state(row: ScheduledFunction) -> SafeString:
    return html.wrapper("function-state", {"function_id": row.pk}, audience=live_queries.OPERATOR)


def _made(row: ScheduledFunction) -> SafeString | str:
    links = [(common.function(made.pk), made.function) for made in pages.descendants(row.pk, limit=20)]
    return format_html_join("", "<div>{} {}</div>", links) or "–"


@admin.register(ScheduledFunction)
class ScheduledFunctionAdmin(common.Operated, administration.BoundedList):
    list_display = ["id", "function", "kind", "state_now", "attempt", "run_at", "started_at", "ended_at"]
    list_display_links = ["id", "function"]
    list_filter = FILTERS
    led_lookups = frozenset({"parent", "retry_of"})
    search_fields = ["=id"]
    search_help_text = "The id of a function"
    fields = [
        "function", ("kind", "live_state", "attempt"), ("run_at", "started_at", "ended_at"), ("queue", "priority"),
        "arguments", "outcome", "in_vain", "error", "shown_traceback",
        ("from_parent", "from_try", "from_run", "from_cron"), ("made", "next_try"), "fire_at", "created_at", "ran_by",
    ]  # fmt: skip
    readonly_fields = [
        "arguments", "outcome", "in_vain", "live_state", "shown_traceback", "from_parent", "from_try", "from_run",
        "from_cron", "made", "next_try",
    ]  # fmt: skip
    actions = ["cancel", "run_again"]
    actions_detail = ["cancel_one", "run_one_again"]

    def view_on_site(self, obj: ScheduledFunction) -> str:
        return reverse("scheduling:function", args=[obj.pk])

    def get_queryset(self, request: HttpRequest) -> "QuerySet[ScheduledFunction]":
        rows: QuerySet[ScheduledFunction] = super().get_queryset(request)
        match = request.resolver_match
        is_one = match is not None and "object_id" in match.kwargs
        return rows if is_one else rows.defer("args", "result", "error", "traceback")

    def finds_exactly(self, term: str) -> bool:
        return bool(term.strip())

    arguments = administration.shown("Arguments", lambda row: _pretty(row.args))
    outcome = administration.shown("Result", lambda row: "–" if row.result is None else _pretty(row.result))
    in_vain = administration.shown("Failed runs", _failed_runs)
    shown_traceback = administration.shown("Traceback", _traceback)
    state_now = administration.shown("Status", _state_in_list)
    live_state = administration.shown("Status", _live_state)
    from_parent = administration.shown("Scheduled by", lambda row: common.function(row.parent_id))
    from_try = administration.shown("Retry of", lambda row: common.function(row.retry_of_id))
    from_run = administration.shown("Rerun of", lambda row: common.function(row.run_again_of_id))
    from_cron = administration.shown("Cron", _cron)
    made = administration.shown("Scheduled functions", _made)
    next_try = administration.shown("Next attempt", lambda row: common.function(retry_of(row.pk)))

    @admin.action(description="Cancel", permissions=["operate"])
    def cancel(self, request: HttpRequest, queryset: "QuerySet[ScheduledFunction]") -> HttpResponse | None:
        """Cancel each, after a question; then count what that came to."""
        dialog = {"title": "Cancel these functions?", "button": "Cancel them"}
        return self._each(request, _chosen(queryset), self._cancel, dialog)

    @admin.action(description="Run again as new functions", permissions=["operate"])
    def run_again(self, request: HttpRequest, queryset: "QuerySet[ScheduledFunction]") -> HttpResponse | None:
        """Retry each, after a question; those that have not ended are left out, and counted."""
        dialog = {"title": "Run these functions again?", "button": "Run them again"}
        return self._each(request, _chosen(queryset), self._run_again, dialog)

    @action(description="Cancel", url_path="cancel", permissions=["operate"])  # type: ignore[untyped-decorator]
    def cancel_one(self, request: HttpRequest, object_id: str) -> HttpResponse:
        dialog = {"title": "Cancel this function?", "button": "Cancel it"}
        return self._one(request, object_id, self._cancel, dialog)

    @action(description="Run again", url_path="run-again", permissions=["operate"])  # type: ignore[untyped-decorator]
    def run_one_again(self, request: HttpRequest, object_id: str) -> HttpResponse:
        dialog = {"title": "Run this function again?", "button": "Run it again"}
        return self._one(request, object_id, self._run_again, dialog)

    def _one(self, request: HttpRequest, object_id: str, do: "Action", dialog: dict[str, str]) -> HttpResponse:
        return self.act_on_one(request, object_id, lambda row: self._each(request, [row], do, dialog))

    def _each(
        self, request: HttpRequest, rows: Sequence[ScheduledFunction], do: "Action", dialog: dict[str, str]
    ) -> HttpResponse | None:
        some = rows[:AT_ONCE]
        if question := administration.carry_out(self, request, lines=_preview(rows), **dialog):
            return question
        outcomes = Counter(do(request, row) for row in some)
        summary = ", ".join(f"{word}: {count:,}" for word, count in sorted(outcomes.items()))
        self.message_user(request, f"{summary or 'Nothing was selected'}.", messages.SUCCESS)
        return None

    def _cancel(self, request: HttpRequest, row: ScheduledFunction) -> str:
        verdict = operations.cancel(row.pk).verdict
        self.log_change(request, row, f"Canceled ({verdict}).")
        return verdict.replace("_", " ")

    def _run_again(self, request: HttpRequest, row: ScheduledFunction) -> str:
        try:
            again = operations.run_again(row.pk)
        except SchedulingError as refusal:
            return refusal.code.replace("_", " ")
        self.log_change(request, again, f"Ran #{row.pk} again.")
        return "scheduled again"


Action = Callable[[HttpRequest, ScheduledFunction], str]


def _chosen(queryset: "QuerySet[ScheduledFunction]") -> Sequence[ScheduledFunction]:
    return list(queryset.order_by("pk")[: AT_ONCE + 1])


def _preview(rows: Sequence[ScheduledFunction]) -> list[str]:
    """What the action applies to: how many functions of each state at this moment."""
    counts = Counter(row.status.replace("_", " ") for row in rows[:AT_ONCE])
    preview = [f"{count:,} {status}" for status, count in sorted(counts.items())]
    return [*preview, f"and more, which are not changed: {AT_ONCE:,} at a time"] if len(rows) > AT_ONCE else preview
