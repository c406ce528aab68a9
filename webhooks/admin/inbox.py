"""The inbox: deliveries with their attempts, what was refused, and the secrets, of which no page shows any."""

from collections import Counter
from typing import Any, Final

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString, mark_safe
from unfold.decorators import action, display

from core import administration, people
from core.values import row_id
from live import html
from webhooks import live_queries, operations
from webhooks.admin import common
from webhooks.admin.rules import StartInline
from webhooks.domain import bodies
from webhooks.domain.names import Source
from webhooks.domain.states import Status
from webhooks.errors import WebhooksError
from webhooks.models import Activity, Delivery, DeliveryAttempt, Refusal, SandboxToken, Secret
from webhooks.queries import pages

AT_ONCE: Final = 1000  # deliveries that one action touches; the inbox replays all that match, at a pace
_MAY_BREAK: Final = mark_safe("<wbr>")


class SourceFilter(common.ChoiceFilter):
    title = parameter_name = "source"
    values = Source


class StatusFilter(common.ChoiceFilter):
    title = parameter_name = "status"
    values = Status

    @property
    def leads(self) -> bool:
        """Most were processed, and have no index of their own."""
        return self.value() != Status.PROCESSED


FILTERS: Final = [
    SourceFilter,
    StatusFilter,
    administration.recent("event_type"),
    administration.by_day("received_at", first_since=pages.first_since, end_before=pages.end_before),
]


class AttemptInline(administration.Part):
    model = DeliveryAttempt
    fields = ["number", "outcome", "started_at", "ended_at", "error_details"]
    readonly_fields = fields
    ordering = ["-number"]

    @display(description="Error")  # type: ignore[untyped-decorator]
    def error_details(self, attempt: DeliveryAttempt) -> SafeString | str:
        return (
            administration.folded(attempt.error or "", attempt.traceback or "")
            if attempt.traceback
            else (attempt.error or "–")
        )


class ActivityInline(administration.Part):
    model = Activity
    fields = ["at", "actor", "verb", "object"]
    readonly_fields = fields
    ordering = ["n"]


@admin.register(Delivery)
class DeliveryAdmin(common.BoundedList):
    """What came, as it came. What it leads to changes by replaying it."""

    list_display = ["id", "source", "event_type", "state", "attempts", "duplicates", "excerpt", "received_at"]
    list_display_links = ["id", "event_type"]
    list_filter = FILTERS
    search_fields = ["delivery_id"]
    search_help_text = "Words of the body, a delivery id, a type, or a number of the inbox"
    fieldsets = [
        (None, {"fields": ["live_state"]}),
        ("Request", {"fields": [
            ("source", "event_type"), "delivery_id", ("received_at", "occurred_at"), ("address", "sandbox"),
            "signed_with", "body_bytes", "digest", "functions", "shown_headers", "shown_body",
        ]}),
        ("Progress", {"fields": [
            ("attempts", "tries"), ("next_attempt_at", "ended_at"), ("duplicates", "last_duplicate_at")
        ]}),
    ]  # fmt: skip
    readonly_fields = ["live_state", "signed_with", "digest", "functions", "shown_headers", "shown_body"]
    inlines = [StartInline, AttemptInline, ActivityInline]
    actions = ["replay_selected", "replay_selected_with_jobs"]
    actions_detail = ["replay_one", "replay_one_with_jobs"]

    def view_on_site(self, obj: Delivery) -> str:
        return reverse("webhooks:delivery", args=[obj.pk])

    def get_queryset(self, request: HttpRequest) -> QuerySet[Delivery]:
        """Without bodies, which may be of 25 MB, and without what seals the secret."""
        rows: QuerySet[Delivery] = super().get_queryset(request)
        return rows.select_related("secret").defer("body", "search", "secret__sealed")

    def finds_exactly(self, term: str) -> bool:
        """A number is an id; a word may be in any number of bodies."""
        return row_id(term) is not None

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Delivery], search_term: str  # noqa: ARG002
    ) -> tuple[QuerySet[Delivery], bool]:  # fmt: skip
        term = search_term.strip()
        if not term:
            return queryset, False
        return pages.with_words(queryset, term, or_pk=row_id(term)), False

    @display(description="Status")  # type: ignore[untyped-decorator]
    def state(self, row: Delivery) -> SafeString:
        arguments, known = {"delivery_id": row.pk}, {"delivery": row}
        return html.wrapper_of_context("delivery-badge", arguments, context=known, audience=live_queries.OPERATOR)

    @display(description="Processed by")  # type: ignore[untyped-decorator]
    @administration.once
    def functions(self, row: Delivery) -> SafeString | str:
        page = "scheduling_scheduledfunction"
        links = [(administration.link(page, one.pk, f"#{one.pk}"), one.status) for one in pages.runs_of(row)]
        return format_html_join(", ", "{} {}", links) or "–"

    @display(description="Note")  # type: ignore[untyped-decorator]
    def excerpt(self, row: Delivery) -> str:
        note = row.note or ""
        return note if len(note) <= 80 else f"{note[:79]}…"

    @display(description="Status")  # type: ignore[untyped-decorator]
    @administration.once
    def live_state(self, row: Delivery) -> SafeString:
        return html.wrapper("delivery-state", {"delivery_id": row.pk}, audience=live_queries.OPERATOR)

    @display(description="Signed with")  # type: ignore[untyped-decorator]
    def signed_with(self, row: Delivery) -> str:
        return row.secret.fingerprint if row.secret else "–"

    @display(description="SHA-256")  # type: ignore[untyped-decorator]
    def digest(self, row: Delivery) -> SafeString:
        """Of the body; a narrow page may break it anywhere between eight digits."""
        digits = bytes(row.body_sha256).hex()
        return format_html_join(_MAY_BREAK, "{}", ((digits[at : at + 8],) for at in range(0, len(digits), 8)))

    @display(description="Headers")  # type: ignore[untyped-decorator]
    @administration.once
    def shown_headers(self, row: Delivery) -> SafeString:
        """As they are stored: those that hold secrets by name alone."""
        text = format_html_join("\n", "{}: {}", row.headers.items())
        return administration.preformatted(text)

    @display(description="Body")  # type: ignore[untyped-decorator]
    @administration.once
    def shown_body(self, row: Delivery) -> SafeString:
        """Its beginning, as text or in hexadecimal; its own page folds and saves it."""
        start = pages.body_start(row.pk, most=bodies.SHOWN_BYTES)
        shown = bodies.show(start, size=row.body_bytes, content_type="")
        text = shown.dump if shown.text is None else shown.text
        return administration.preformatted(text + ("\n… cut here" if shown.is_cut else ""))

    @admin.action(description="Replay", permissions=["operate"])
    def replay_selected(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> HttpResponse | None:
        """Process each again, after a question that says how they stand; then say what it came to."""
        return self._replay_each(request, queryset, with_jobs=False)

    @admin.action(description="Replay and start their jobs again", permissions=["operate"])
    def replay_selected_with_jobs(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> HttpResponse | None:
        return self._replay_each(request, queryset, with_jobs=True)

    @action(description="Replay", url_path="replay", permissions=["operate"])  # type: ignore[untyped-decorator]
    def replay_one(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._replay_one(request, object_id, with_jobs=False)

    @action(description="Replay with its jobs", url_path="replay-with-jobs", permissions=["operate"])  # type: ignore[untyped-decorator]
    def replay_one_with_jobs(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._replay_one(request, object_id, with_jobs=True)

    def _replay_each(
        self, request: HttpRequest, queryset: QuerySet[Delivery], *, with_jobs: bool
    ) -> HttpResponse | None:
        chosen = list(queryset.order_by("pk").values_list("pk", "status")[: AT_ONCE + 1])
        if not administration.is_confirmed(request):
            title, button = f"Replay these deliveries{_and_jobs(with_jobs)}?", "Replay them"
            return administration.question(self, request, title=title, lines=_preview(chosen), button=button)
        common.report(request, Counter(_replay(request, pk, with_jobs=with_jobs) for pk, _ in chosen[:AT_ONCE]))
        return None

    def _replay_one(self, request: HttpRequest, object_id: str, *, with_jobs: bool) -> HttpResponse:
        row = self.get_object(request, object_id)
        if row is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)  # type: ignore[no-any-return]
        if not administration.is_confirmed(request):
            title, preview = f"Replay this delivery{_and_jobs(with_jobs)}?", _preview([(row.pk, row.status)])
            return administration.question(self, request, title=title, lines=preview, button="Replay it")
        common.report(request, Counter([_replay(request, row.pk, with_jobs=with_jobs)]))
        return HttpResponseRedirect(reverse("admin:webhooks_delivery_change", args=[row.pk]))


@admin.register(Refusal)
class RefusalAdmin(common.BoundedList):
    """Counts of what was refused. Of the requests themselves nothing is kept."""

    list_display = ["hour", "source", "reason", "count", "last_at", "last_address"]
    list_filter = ["source", administration.recent("reason"), administration.by_day("hour")]


@admin.register(Secret)
class SecretAdmin(common.ReadOnly):
    """Which secrets there are. What they are is shown once, on the page where they are added."""

    list_display = ["fingerprint", "source", "name", "state", "created_at", "retired_at", "last_used_at"]
    list_filter = ["source", ("retired_at", admin.EmptyFieldListFilter)]
    exclude = ["sealed"]
    actions = ["retire_selected"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Secret]:
        rows: QuerySet[Secret] = super().get_queryset(request)
        return rows.defer("sealed")

    @display(description="Status", label={"retired": "danger", "active": "success"})  # type: ignore[untyped-decorator]
    def state(self, secret: Secret) -> str:
        """Whether it opens anything, or will not once its time comes."""
        return "retired" if secret.retired_at else "active"

    def view_on_site(self, obj: Secret) -> str:
        return reverse("webhooks:source", args=[obj.source])

    @admin.action(description="Retire at once", permissions=["operate"])
    def retire_selected(self, request: HttpRequest, queryset: QuerySet[Secret]) -> HttpResponse | None:
        if not administration.is_confirmed(request):
            preview = [f"{row.get_source_display()} {row.fingerprint} {row.name}" for row in queryset]
            return administration.question(
                self, request, title="Retire these secrets at once?", lines=preview, button="Retire them"
            )
        for row in queryset:
            operations.retire(row.pk, by=people.person(request))
        self.message_user(request, "The secrets are retired.", messages.SUCCESS)
        return None


@admin.register(SandboxToken)
class SandboxTokenAdmin(common.ReadOnly):
    """Which tokens there are. Their hashes are of no use to anybody."""

    list_display = ["sandbox", "created_at", "expires_at", "revoked_at", "last_used_at"]
    list_filter = [("revoked_at", admin.EmptyFieldListFilter)]
    search_fields = ["sandbox"]
    exclude = ["token_hash"]


def _and_jobs(with_jobs: bool) -> str:
    return " and start their jobs again" if with_jobs else ""


def _replay(request: HttpRequest, pk: int, *, with_jobs: bool) -> str:
    try:
        operations.replay(pk, with_jobs=with_jobs, by=people.person(request))
    except WebhooksError as refusal:
        return refusal.message
    return "processed again"


def _preview(chosen: list[tuple[Any, str]]) -> list[str]:
    """What the action applies to: how many deliveries of each status at this moment."""
    counts = Counter(status for _, status in chosen[:AT_ONCE])
    preview = [f"{count:,} {status}" for status, count in sorted(counts.items())]
    more = f"and more, which are not changed: {AT_ONCE:,} at a time; the inbox replays all that match"
    return [*preview, more] if len(chosen) > AT_ONCE else preview
