"""The inbox: deliveries with their attempts, what was refused, and the secrets, of which no page shows any."""

from collections import Counter
from typing import Any, Final

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from unfold.decorators import action, display

from live import html
from webhooks import live_queries, operations
from webhooks.admin import common
from webhooks.domain import showing
from webhooks.domain.states import Status
from webhooks.errors import WebhooksError
from webhooks.models import Activity, Delivery, DeliveryAttempt, Refusal, SandboxToken, Secret
from webhooks.queries import inbox, pages

AT_ONCE: Final = 1000  # deliveries that one action touches; the inbox replays all that match, at a pace
_MAY_BREAK: Final = mark_safe("<wbr>")
COLOURS: Final = {
    Status.RECEIVED: "info",
    Status.PROCESSED: "success",
    Status.IGNORED: "default",
    Status.FAILED: "warning",
    Status.DEAD: "danger",
    Status.REJECTED: "danger",
}


class AttemptInline(common.Part):
    """How each attempt to process it went."""

    model = DeliveryAttempt
    fields = ["number", "outcome", "started_at", "ended_at", "what_went_wrong"]
    readonly_fields = fields
    ordering = ["-number"]

    @display(description="Error")  # type: ignore[untyped-decorator]
    def what_went_wrong(self, attempt: DeliveryAttempt) -> SafeString | str:
        """The error, its traceback folded away."""
        if not attempt.error:
            return "–"
        if not attempt.traceback:
            return attempt.error
        shown = '<details><summary>{}</summary><pre class="code">{}</pre></details>'
        return format_html(shown, attempt.error, attempt.traceback)


class ActivityInline(common.Part):
    """What it told people."""

    model = Activity
    fields = ["at", "actor", "verb", "object"]
    readonly_fields = fields
    ordering = ["n"]


@admin.register(Delivery)
class DeliveryAdmin(common.ReadOnly):
    """What came, as it came. What it leads to changes by replaying it."""

    list_display = ["id", "source", "event_type", "state", "attempts", "duplicates", "excerpt", "received_at"]
    list_display_links = ["id", "event_type"]
    list_filter = ["source", "status", "received_at"]
    sortable_by = ["id"]
    search_fields = ["delivery_id"]
    search_help_text = "Words of the body, a delivery id, a type, or our number"
    fieldsets = [
        (None, {"fields": ["live_state"]}),
        ("What came", {"fields": [
            ("source", "event_type"), "delivery_id", ("received_at", "occurred_at"), ("address", "sandbox"),
            "signed_with", "body_bytes", "digest", "shown_headers", "shown_body",
        ]}),
        ("How it goes", {"fields": [
            ("attempts", "tries"), ("next_attempt_at", "ended_at"), ("duplicates", "last_duplicate_at")
        ]}),
    ]  # fmt: skip
    readonly_fields = ["live_state", "signed_with", "digest", "shown_headers", "shown_body"]
    inlines = [AttemptInline, ActivityInline]
    actions = ["replay_selected"]
    actions_detail = ["replay_one"]

    class Media(common.LiveMedia):
        """Its page is live."""

    def view_on_site(self, obj: Delivery) -> str:
        """Its page outside of the administration."""
        return reverse("webhooks:delivery", args=[obj.pk])

    def get_queryset(self, request: HttpRequest) -> QuerySet[Delivery]:
        """Without bodies, which may be of 25 MB, and without what seals the secret."""
        rows: QuerySet[Delivery] = super().get_queryset(request)
        return rows.select_related("secret").defer("body", "search", "secret__sealed")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Delivery], search_term: str  # noqa: ARG002
    ) -> tuple[QuerySet[Delivery], bool]:  # fmt: skip
        """By what indexes find: words, ids, types, and our own number."""
        term = search_term.strip()
        if not term:
            return queryset, False
        found = inbox.with_text(term)
        if term.isascii() and term.isdigit() and len(term) <= 18:
            found |= Q(pk=int(term))
        return queryset.filter(found), False

    @display(description="Status", label=COLOURS)  # type: ignore[untyped-decorator]
    def state(self, row: Delivery) -> tuple[str, str]:
        """The status in its colour."""
        return row.status, row.get_status_display()

    @display(description="Note")  # type: ignore[untyped-decorator]
    def excerpt(self, row: Delivery) -> str:
        """The beginning of why it was ignored or how it failed."""
        note = row.note or ""
        return note if len(note) <= 80 else f"{note[:79]}…"

    @display(description="State")  # type: ignore[untyped-decorator]
    def live_state(self, row: Delivery) -> SafeString:
        """How it stands, live."""
        return html.wrapper("delivery-state", {"delivery_id": row.pk}, audience=live_queries.OPERATOR)

    @display(description="Signed with")  # type: ignore[untyped-decorator]
    def signed_with(self, row: Delivery) -> str:
        """Which secret it was, by its fingerprint."""
        return row.secret.fingerprint if row.secret else "–"

    @display(description="SHA-256")  # type: ignore[untyped-decorator]
    def digest(self, row: Delivery) -> SafeString:
        """Of the body; a narrow page may break it anywhere between eight digits."""
        digits = bytes(row.body_sha256).hex()
        return format_html_join(_MAY_BREAK, "{}", ((digits[at : at + 8],) for at in range(0, len(digits), 8)))

    @display(description="Headers")  # type: ignore[untyped-decorator]
    def shown_headers(self, row: Delivery) -> SafeString:
        """As they are stored: those that hold secrets by name alone."""
        lines = format_html_join("\n", "{}: {}", row.headers.items())
        return format_html('<pre class="code">{}</pre>', lines)

    @display(description="Body")  # type: ignore[untyped-decorator]
    def shown_body(self, row: Delivery) -> SafeString:
        """Its beginning, as text or in hexadecimal; its own page folds and saves it."""
        start = pages.body_start(row.pk, most=showing.SHOWN_BYTES)
        shown = showing.show(start, size=row.body_bytes, content_type="")
        text = shown.dump if shown.text is None else shown.text
        return format_html('<pre class="code">{}{}</pre>', text, "\n… cut here" if shown.is_cut else "")

    @admin.action(description="Replay", permissions=["operate"])
    def replay_selected(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> HttpResponse | None:
        """Process each again, after a question that says how they stand; then say what it came to."""
        chosen = list(queryset.order_by("pk").values_list("pk", "status")[: AT_ONCE + 1])
        if not common.is_confirmed(request):
            title, button = "Replay these deliveries?", "Replay them"
            return common.question(self, request, title=title, lines=_preview(chosen), button=button)
        self._say(request, Counter(_replay(request, pk) for pk, _ in chosen[:AT_ONCE]))
        return None

    @action(description="Replay", url_path="replay", permissions=["operate"])  # type: ignore[untyped-decorator]
    def replay_one(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Process this one again, after a question."""
        row = self.get_object(request, object_id)
        if row is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)  # type: ignore[no-any-return]
        if not common.is_confirmed(request):
            lines = _preview([(row.pk, row.status)])
            return common.question(
                self, request, title="Replay this delivery?", lines=lines, button="Replay it"
            )
        self._say(request, Counter([_replay(request, row.pk)]))
        return HttpResponseRedirect(reverse("admin:webhooks_delivery_change", args=[row.pk]))

    def _say(self, request: HttpRequest, came_to: "Counter[str]") -> None:
        told = "; ".join(f"{count} {what}" for what, count in came_to.most_common())
        self.message_user(request, told or "Nothing was selected.", messages.SUCCESS)


@admin.register(Refusal)
class RefusalAdmin(common.ReadOnly):
    """Counts of what was refused. Of the requests themselves nothing is kept."""

    list_display = ["hour", "source", "reason", "count", "last_at", "last_address"]
    list_filter = ["source", "reason", "hour"]


@admin.register(Secret)
class SecretAdmin(common.ReadOnly):
    """Which secrets there are. What they are is shown once, on the page where they are added."""

    list_display = ["fingerprint", "source", "name", "created_at", "retired_at", "last_used_at"]
    list_filter = ["source", ("retired_at", admin.EmptyFieldListFilter)]
    exclude = ["sealed"]
    actions = ["retire_selected"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Secret]:
        """Without what seals them."""
        rows: QuerySet[Secret] = super().get_queryset(request)
        return rows.defer("sealed")

    def view_on_site(self, obj: Secret) -> str:
        """Where secrets are added and rotated."""
        return reverse("webhooks:source", args=[obj.source])

    @admin.action(description="Retire at once", permissions=["operate"])
    def retire_selected(self, request: HttpRequest, queryset: QuerySet[Secret]) -> HttpResponse | None:
        """Let them open nothing any more, after a question."""
        if not common.is_confirmed(request):
            lines = [f"{row.get_source_display()} {row.fingerprint} {row.name}" for row in queryset]
            return common.question(
                self, request, title="Retire these secrets at once?", lines=lines, button="Retire them"
            )
        for row in queryset:
            operations.retire(row.pk, by=common.person(request))
        self.message_user(request, "They open nothing any more.", messages.SUCCESS)
        return None


@admin.register(SandboxToken)
class SandboxTokenAdmin(common.ReadOnly):
    """Which tokens there are. Their hashes are of no use to anybody."""

    list_display = ["sandbox", "created_at", "expires_at", "revoked_at", "last_used_at"]
    list_filter = [("revoked_at", admin.EmptyFieldListFilter)]
    search_fields = ["sandbox"]
    exclude = ["token_hash"]


def _replay(request: HttpRequest, pk: int) -> str:
    try:
        operations.replay(pk, by=common.person(request))
    except WebhooksError as refusal:
        return refusal.message
    return "processed again"


def _preview(chosen: list[tuple[Any, str]]) -> list[str]:
    """What the deed is about to meet: how many deliveries, and how they stand at this moment."""
    standing = Counter(status for _, status in chosen[:AT_ONCE])
    lines = [f"{count} {status}" for status, count in sorted(standing.items())]
    more = f"and more, which stay as they are: {AT_ONCE} at a time; the inbox replays all that match"
    return [*lines, more] if len(chosen) > AT_ONCE else lines
