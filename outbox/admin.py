"""The outbox in the administration: endpoints and their messages to look at, with the actions of their pages."""

from collections.abc import Callable
from typing import Any, Final

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html

from core import administration, people
from outbox import operations
from outbox.domain.messages import FAILING, EndpointStatus, Status
from outbox.models import Endpoint, Message

_LABELS: Final = {FAILING: "danger", EndpointStatus.ACTIVE: "success", EndpointStatus.PAUSED: "warning"}


def _changing(sentence: str, do: Callable[..., Any], status: EndpointStatus) -> Any:
    """An action that gives endpoints this status."""

    def change(request: HttpRequest, row: Endpoint) -> str:
        do(row.pk, by=people.person(request))
        return str(status)

    return administration.on_each(sentence, change, line=lambda row: row.name)


@admin.register(Endpoint)
class EndpointAdmin(administration.OnSite, administration.Operated, administration.ReadOnly):
    """Where events go. Made and changed on the site, where its secret is shown."""

    page = "outbox:endpoint"
    operate = operations.OPERATE

    list_display = ["name", "owner", "status_for_people", "event_list", "failing_since", "last_failure", "created_at"]
    list_filter = ["status", "is_callback"]
    list_select_related = ["owner"]
    search_fields = ["name", "url"]
    actions = ["pause_selected", "resume_selected", "disable_selected", "replay_dead"]

    status_for_people = administration.shown("Status", lambda row: row.shown_status, ordering="status", label=_LABELS)
    event_list = administration.shown("Events", lambda row: ", ".join(row.events))

    pause_selected = _changing("Pause {}", operations.pause, EndpointStatus.PAUSED)
    resume_selected = _changing("Resume {}", operations.resume, EndpointStatus.ACTIVE)
    disable_selected = _changing("Disable {}", operations.disable, EndpointStatus.DISABLED)

    @admin.action(description="Replay all dead messages", permissions=["operate"])
    def replay_dead(self, request: HttpRequest, queryset: QuerySet[Endpoint]) -> HttpResponse | None:
        """Send what each of them did not take once more, in batches."""
        person, rows = people.person(request), list(queryset[: administration.AT_ONCE])
        wanted = [operations.Filter(endpoint=row.pk, status=Status.DEAD) for row in rows]
        counts = [operations.count_matching(one, by=person) for one in wanted]
        lines = [f"{row.name}: {count:,}" for row, count in zip(rows[:20], counts, strict=False)]
        question = administration.carry_out(
            self, request, title=f"Replay {sum(counts):,} dead messages?", lines=lines, button="Replay them"
        )
        if question is None:
            for begun in filter(None, (operations.replay_matching(one, by=person) for one in wanted)):
                address = reverse("outbox:bulk_replay", args=[begun.first])
                line = 'Replays {} messages: <a href="{}">progress</a>.'
                messages.success(request, format_html(line, begun.matched, address))
        return question


def _replay(request: HttpRequest, row: Message) -> str:
    operations.replay(row.pk, by=people.person(request))
    return "sent once more"


@admin.register(Message)
class MessageAdmin(administration.OnSite, administration.Operated, administration.BoundedList):
    """Events on their way. What becomes of one changes by replaying it."""

    page = "outbox:message"
    operate = operations.OPERATE

    list_display = ["id", "event", "endpoint", "status", "attempts", "note", "created_at", "ended_at"]
    list_display_links = ["id", "event"]
    actions = ["replay_selected"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Message]:
        rows: QuerySet[Message] = super().get_queryset(request)
        return rows.select_related("event", "endpoint").defer("event__body", "event__body_with_result")

    replay_selected = administration.on_each("Replay {}", _replay)
