"""What was scheduled, and how it went: to look at, to cancel, to run again."""

from typing import Any, Final

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from core import administration, audit, people
from live import html
from scheduling import live_queries, operations, views
from scheduling.domain.states import Status
from scheduling.models import ScheduledFunction
from scheduling.queries import pages
from scheduling.queries.functions import retry_of
from scheduling.templatetags.scheduling import pretty

COLOURS: Final = {
    "pending": "info",
    **dict.fromkeys(("success", "active", "living"), "success"),
    **dict.fromkeys(("in_progress", "paused"), "warning"),
    **dict.fromkeys(("failed", "unknown", "died", "frozen", "lost"), "danger"),
    **dict.fromkeys(("canceled", "retired", "stopped"), ""),
}


def link(pk: int | None) -> SafeString | str:
    return administration.link("scheduling_scheduledfunction", pk)


class Operated(administration.Operated):
    """Whose actions are for who runs the farm."""

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
    links = [(link(made.pk), made.function) for made in pages.descendants(row.pk, limit=20)]
    return format_html_join("", "<div>{} {}</div>", links) or "–"


def _cancel(request: HttpRequest, row: ScheduledFunction) -> str:
    verdict = operations.cancel(row.pk).verdict
    audit.record(people.person(request), row, f"Canceled ({verdict}).")
    return verdict.replace("_", " ")


def _run_again(request: HttpRequest, row: ScheduledFunction) -> str:
    audit.record(people.person(request), operations.run_again(row.pk), f"Ran #{row.pk} again.")
    return "scheduled again"


@admin.register(ScheduledFunction)
class ScheduledFunctionAdmin(Operated, administration.BoundedList):
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
    actions = ["cancel", "run_again"]
    actions_detail = ["cancel_one", "run_one_again"]
    view_on_site = administration.on_site("scheduling:function")

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
    from_parent = administration.shown("Scheduled by", lambda row: link(row.parent_id))
    from_try = administration.shown("Retry of", lambda row: link(row.retry_of_id))
    from_run = administration.shown("Rerun of", lambda row: link(row.run_again_of_id))
    from_cron = administration.shown("Cron", _cron)
    made = administration.shown("Scheduled functions", _made)
    next_try = administration.shown("Next attempt", lambda row: link(retry_of(row.pk)))

    cancel = administration.on_each("Cancel {}", _cancel)
    cancel_one = administration.on_one("Cancel {}", _cancel)
    run_again = administration.on_each("Run {} again", _run_again)
    run_one_again = administration.on_one("Run {} again", _run_again)
