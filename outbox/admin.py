"""The outbox in the administration: endpoints and their messages to look at, with the actions of their pages."""

from collections.abc import Callable
from typing import Any, Final

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from unfold.decorators import action, display

from core import administration, people
from outbox import operations
from outbox.domain.states import FAILING, EndpointStatus, Status
from outbox.errors import OutboxError
from outbox.models import Attempt, Endpoint, EndpointSecret, Message

_LABELS: Final = {FAILING: "danger", EndpointStatus.ACTIVE: "success", EndpointStatus.PAUSED: "warning"}
AT_ONCE: Final = 1000  # messages that one action replays


class _Operated:
    def has_operate_permission(self, request: HttpRequest, object_id: Any = None) -> bool:  # noqa: ARG002  # the admin's
        return operations.is_operator(people.person(request))


class SecretInline(administration.Part):
    model = EndpointSecret
    fields = ["fingerprint", "created_at", "retired_at"]
    readonly_fields = fields


class AttemptInline(administration.Part):
    model = Attempt
    fields = ["number", "started_at", "duration_ms", "outcome", "http_status", "error", "shown_answer"]
    readonly_fields = fields
    ordering = ["-number"]

    @display(description="Answer")  # type: ignore[untyped-decorator]
    def shown_answer(self, attempt: Attempt) -> str:
        return administration.folded("the answer", attempt.answer)


@admin.register(Endpoint)
class EndpointAdmin(_Operated, administration.ReadOnly):
    """Where events go. Made and changed on the site, where its secret is shown."""

    list_display = ["name", "owner", "status_for_people", "event_list", "failing_since", "last_failure", "created_at"]
    list_filter = ["status", "is_callback"]
    list_select_related = ["owner"]
    search_fields = ["name", "url"]
    fields = [
        "name", "url", "owner", "events", "kinds", "with_result", "per_minute", "is_callback", "status", "note",
        "held_until", "failing_since", "last_failure", "created_at",
    ]  # fmt: skip
    inlines = [SecretInline]
    actions = ["pause_selected", "resume_selected", "disable_selected", "replay_dead"]

    def view_on_site(self, obj: Endpoint) -> str:
        return reverse("outbox:endpoint", args=[obj.pk])

    @display(description="Status", ordering="status", label=_LABELS)  # type: ignore[untyped-decorator]
    def status_for_people(self, row: Endpoint) -> str:
        return row.shown_status

    @display(description="Events")  # type: ignore[untyped-decorator]
    def event_list(self, row: Endpoint) -> str:
        return ", ".join(row.events)

    @admin.action(description="Pause", permissions=["operate"])
    def pause_selected(self, request: HttpRequest, queryset: QuerySet[Endpoint]) -> HttpResponse | None:
        """Keep what happens for them, and send nothing."""
        return self._each(request, queryset, operations.pause, EndpointStatus.PAUSED)

    @admin.action(description="Resume", permissions=["operate"])
    def resume_selected(self, request: HttpRequest, queryset: QuerySet[Endpoint]) -> HttpResponse | None:
        return self._each(request, queryset, operations.resume, EndpointStatus.ACTIVE)

    @admin.action(description="Disable", permissions=["operate"])
    def disable_selected(self, request: HttpRequest, queryset: QuerySet[Endpoint]) -> HttpResponse | None:
        """Keep nothing for them any more."""
        return self._each(request, queryset, operations.disable, EndpointStatus.DISABLED)

    @admin.action(description="Replay all dead messages", permissions=["operate"])
    def replay_dead(self, request: HttpRequest, queryset: QuerySet[Endpoint]) -> HttpResponse | None:
        """Send what each of them did not take once more, in batches."""
        person, rows = people.person(request), list(queryset[:AT_ONCE])
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

    def _each(
        self, request: HttpRequest, queryset: QuerySet[Endpoint], do: Callable[..., Any], status: EndpointStatus
    ) -> HttpResponse | None:
        rows = list(queryset[:AT_ONCE])
        question = administration.carry_out(
            self, request, title=f"{len(rows)} endpoints are {status} then", lines=[row.name for row in rows[:20]],
            button="Yes",
        )  # fmt: skip
        if question is None:
            for row in rows:
                do(row.pk, by=people.person(request))
            messages.success(request, f"{len(rows)} endpoints are {status}.")
        return question


@admin.register(Message)
class MessageAdmin(_Operated, administration.BoundedList):
    """Events on their way. What becomes of one changes by replaying it."""

    list_display = ["id", "event", "endpoint", "status", "attempts", "note", "created_at", "ended_at"]
    list_display_links = ["id", "event"]
    fields = [
        "event", "endpoint", "subject", "status", "attempts", "tries", "next_attempt_at", "note", "created_at",
        "ended_at", "shown_body",
    ]  # fmt: skip
    readonly_fields = ["shown_body"]
    inlines = [AttemptInline]
    actions = ["replay_selected"]
    actions_detail = ["replay_one"]

    def view_on_site(self, obj: Message) -> str:
        return reverse("outbox:message", args=[obj.pk])

    def get_queryset(self, request: HttpRequest) -> QuerySet[Message]:
        rows: QuerySet[Message] = super().get_queryset(request)
        return rows.select_related("event", "endpoint").defer("event__body", "event__body_with_result")

    @display(description="Body")  # type: ignore[untyped-decorator]
    @administration.once
    def shown_body(self, row: Message) -> str:
        """As it is sent to those who ask for no results."""
        return administration.preformatted(row.event.body)

    @admin.action(description="Replay", permissions=["operate"])
    def replay_selected(self, request: HttpRequest, queryset: QuerySet[Message]) -> HttpResponse | None:
        rows = list(queryset.exclude(status=Status.PENDING)[:AT_ONCE])
        question = administration.carry_out(
            self, request, title=f"{len(rows):,} messages are sent once more",
            lines=[str(row.event) for row in rows[:20]], button="Replay them",
        )  # fmt: skip
        if question is None:
            self._replay(request, [row.pk for row in rows])
        return question

    @action(description="Replay", permissions=["operate"])  # type: ignore[untyped-decorator]
    def replay_one(self, request: HttpRequest, object_id: int) -> HttpResponse:
        self._replay(request, [int(object_id)])
        back: HttpResponse = self.response_post_save_change(request, Message.objects.get(pk=object_id))
        return back

    def _replay(self, request: HttpRequest, ids: list[int]) -> None:
        done = 0
        for pk in ids:
            try:
                operations.replay(pk, by=people.person(request))
                done += 1
            except OutboxError as refusal:
                messages.warning(request, refusal.message)
        messages.success(request, f"{done} message{'' if done == 1 else 's'} sent once more.")
